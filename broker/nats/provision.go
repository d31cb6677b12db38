package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
)

// Provision makes the stream, the stream that keeps owners, and the durable consumer of
// [Options.Role]. If dry, it only returns the missing objects. It verifies existing
// objects and never changes them, except a stream of owners that takes messages of others. It
// needs the permissions of an administrator, unless all objects exist.
func (b *Broker) Provision(ctx context.Context, dry bool) (changes []broker.Change, err error) {
	err = b.connected(ctx, func(b *Broker, s *session) error {
		for _, o := range b.objects(ctx, s) {
			err := o.fits()
			missing := errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, errOwnersOpen)
			switch {
			case missing && dry:
				err = nil
			case missing:
				if err = o.create(); err == nil {
					err = o.fits() // the server ignores some settings
				}
			}
			if err != nil {
				return fmt.Errorf("%s: %w", o.Object, err)
			}
			if missing {
				changes = append(changes, o.Change)
			}
		}
		return nil
	})
	return changes, err
}

// connected calls f with a connection of its own, so that Run need not run.
func (b *Broker) connected(ctx context.Context, f func(*Broker, *session) error) error {
	if err := b.opt.Routing.Validate(); err != nil {
		return fmt.Errorf("routing: %w", err)
	}
	b = New(b.opt, b.log)
	s, err := b.dial(ctx)
	if err != nil {
		return err
	}
	defer s.conn.Close()
	if err := modern(s.conn.ConnectedServerVersion()); err != nil {
		return err
	}
	return f(b, s)
}

// An object is a stream or consumer that the server must have.
type object struct {
	broker.Change

	fits   func() error // returns why it can't be used as it is, or that it is missing
	create func() error
}

func (b *Broker) objects(ctx context.Context, s *session) []object {
	stream, owners, topic := b.streamConfig(), b.ownerConfig(b.opt.Role), b.opt.Routing.Subscription()
	consumer := consumerConfig(ConsumerName(b.opt.Role, topic), topic)
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
				return b.verify(info)
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
				Detail: fmt.Sprintf("subject %s; file storage; one message, for ever, and no second one", owners.Subjects[0]),
			},
			func() error { _, err := b.ownersFit(ctx, s, b.opt.Role); return err },
			func() error { return b.makeOwners(ctx, s, b.opt.Role) },
		},
	}
}

// The oldest supported version was the first to name consumers in the subjects they are
// made on.
const oldestMajor, oldestMinor = 2, 9

// modern returns an error that wraps errUnfit if a server is too old. A version that
// can't be parsed is accepted.
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
