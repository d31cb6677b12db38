package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
)

// Provision makes the stream, the one that keeps owners, and the durable consumer of
// [Options.Role], or, if dry, only returns what it would make. What exists is verified
// and never changed. It needs the permissions of an administrator, unless all is there.
func (b *Broker) Provision(ctx context.Context, dry bool) (changes []broker.Change, err error) {
	err = b.connected(ctx, func(b *Broker, s *session) error {
		for _, o := range b.objects(ctx, s) {
			fits := o.fits()
			missing := errors.Is(fits, jetstream.ErrStreamNotFound) || errors.Is(fits, jetstream.ErrConsumerNotFound)
			if missing {
				changes = append(changes, o.Change)
			}
			if missing && !dry {
				if fits = o.create(); fits == nil {
					fits = o.fits() // some settings can't be chosen
				}
			}
			if fits != nil && !(missing && dry) {
				return fmt.Errorf("%s: %w", o.Object, fits)
			}
		}
		return nil
	})
	return changes, err
}

// connected has f use a connection of its own, whether Run runs or not.
func (b *Broker) connected(ctx context.Context, f func(*Broker, *session) error) error {
	if err := b.opt.Routing.Validate(); err != nil {
		return fmt.Errorf("routing: %w", err)
	}
	b = New(b.opt, b.log)
	s, err := b.dial(ctx)
	if err != nil {
		return err
	}
	if s.owned {
		defer s.conn.Close()
	}
	if err := modern(s.conn.ConnectedServerVersion()); err != nil {
		return err
	}
	return f(b, s)
}

// An object is what has to be at the server.
type object struct {
	broker.Change

	fits   func() error // why it can't be used as it is, or that it is not there
	create func() error
}

func (b *Broker) objects(ctx context.Context, s *session) []object {
	stream, owners, topic := b.streamConfig(), b.ownerConfig(), b.opt.Routing.Subscription()
	consumer := consumerConfig(b.opt.Prefix+durable(b.opt.Role, topic), topic)
	return []object{
		{
			broker.Change{
				Object: "stream " + stream.Name,
				Detail: fmt.Sprintf("subjects %s; file storage; at most %d bytes, then new messages are refused; kept for %v; ids known for %v",
					strings.Join(stream.Subjects, " "), stream.MaxBytes, stream.MaxAge, stream.Duplicates),
			},
			func() error {
				info, err := b.lookUpStream(ctx, s)
				if err != nil {
					return err
				}
				return b.verify(info.Config)
			},
			func() error { _, err := b.create(ctx, s); return err },
		},
		{
			broker.Change{
				Object: "consumer " + consumer.Durable,
				Detail: fmt.Sprintf("of stream %s; filter %s; durable, pull; explicit acks within %v; unlimited deliveries; unlimited messages in flight",
					b.opt.Stream, topic, consumer.AckWait),
			},
			func() error {
				info, err := b.lookUpConsumer(ctx, s, consumer.Durable)
				if err != nil {
					return err
				}
				return verifyConsumer(info.Config, consumer)
			},
			func() error { _, err := b.makeConsumer(ctx, s, consumer); return err },
		},
		{
			broker.Change{
				Object: "stream " + owners.Name,
				Detail: fmt.Sprintf("subjects %s; file storage; the last message of each, for ever", owners.Subjects[0]),
			},
			func() error {
				var info jetstream.StreamInfo
				err := b.ask(ctx, s, "STREAM.INFO."+owners.Name, struct{}{}, &info)
				if err == nil && !slices.Equal(info.Config.Subjects, owners.Subjects) {
					err = fmt.Errorf("%w: subjects are %s; set them to: %s", errUnfit, info.Config.Subjects, owners.Subjects)
				}
				return err
			},
			func() error { return b.makeOwners(ctx, s) },
		},
	}
}

// The oldest version that is supported: it was the first to name consumers in the
// subjects they are made on.
const oldestMajor, oldestMinor = 2, 9

// modern returns an error that wraps errUnfit if a server is too old. One that
// has no version that can be parsed is accepted.
func modern(version string) error {
	var major, minor int
	if n, _ := fmt.Sscanf(strings.TrimPrefix(version, "v"), "%d.%d", &major, &minor); n < 2 {
		return nil
	}
	if major > oldestMajor || major == oldestMajor && minor >= oldestMinor {
		return nil
	}
	return fmt.Errorf("%w: the NATS server is version %s; at least %d.%d is needed", errUnfit, version, oldestMajor, oldestMinor)
}
