package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
)

// Provision makes the stream, the stream that keeps owners, and the durable consumer of
// [Options.Role]. If dry, it only returns what it would make. It verifies existing
// objects and never changes them. It needs the permissions of an administrator, unless
// all objects exist.
func (b *Broker) Provision(ctx context.Context, dry bool) (changes []broker.Change, err error) {
	err = b.connected(ctx, func(b *Broker, s *session) error {
		for _, o := range b.objects(ctx, s) {
			fits := o.fits()
			missing := errors.Is(fits, jetstream.ErrStreamNotFound) || errors.Is(fits, jetstream.ErrConsumerNotFound)
			switch {
			case missing && dry && b.opt.Verify:
				fits = nil
			case missing && dry:
				fits = o.permitted()
			case missing:
				if fits = o.create(); fits == nil {
					fits = o.fits() // the server ignores some settings
				}
			}
			if fits != nil {
				return fmt.Errorf("%s: %w", o.Object, fits)
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
	if s.owned {
		defer s.conn.Close()
	}
	if err := modern(s.conn.ConnectedServerVersion()); err != nil {
		return err
	}
	return f(b, s)
}

// An object is a stream or consumer that the server must have.
type object struct {
	broker.Change

	fits      func() error // returns why it can't be used as it is, or that it is missing
	permitted func() error // returns why it can't be made, if the server can be asked
	create    func() error
}

// permitted returns an error if the server denies a request that makes something. The
// request is empty, so a server that permits it answers that it is invalid, and makes
// nothing.
func (b *Broker) permitted(ctx context.Context, s *session, subject string) error {
	err := b.ask(ctx, s, subject, struct{}{}, new(struct{}))
	if _, answered := errors.AsType[*jetstream.APIError](err); answered {
		return nil
	}
	return err
}

// creatable returns why a stream can't be made: the user lacks a permission, or a limit
// of the server is too low. The request has several mistakes, so that it never makes a
// stream. A single server reports a lack of space before these mistakes.
func (b *Broker) creatable(ctx context.Context, s *session, stream jetstream.StreamConfig) error {
	stream.Subjects, stream.MaxAge = []string{"..", ">"}, 1
	err := b.ask(ctx, s, "STREAM.CREATE."+stream.Name, stream, new(struct{}))
	if api, answered := errors.AsType[*jetstream.APIError](err); answered && !slices.Contains(noSpace, api.ErrorCode) {
		return nil
	}
	return b.tooLarge(err)
}

// free returns an error if another stream has one of our subjects. A user without the
// permission to ask gets nil here, and the error when the stream is made.
func (b *Broker) free(ctx context.Context, s *session) error {
	for _, subject := range subjects(b.opt.Routing) {
		var found struct {
			Streams []string `json:"streams"`
		}
		err := b.ask(ctx, s, "STREAM.NAMES", map[string]string{"subject": subject}, &found)
		switch {
		case errors.Is(err, broker.ErrDenied):
			return nil
		case err != nil:
			return err
		case len(found.Streams) > 0:
			return fmt.Errorf("%w: stream %s has the subject %s already; name the stream that holds the subjects, or choose other topics", errUnfit, found.Streams[0], subject)
		}
	}
	return nil
}

func (b *Broker) objects(ctx context.Context, s *session) []object {
	stream, owners, topic := b.streamConfig(), b.ownerConfig(), b.opt.Routing.Subscription()
	consumer := consumerConfig(durable(b.opt.Role, topic), topic)
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
			func() error { return cmp.Or(b.creatable(ctx, s, stream), b.free(ctx, s)) },
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
			func() error {
				return b.permitted(ctx, s, "CONSUMER.CREATE."+stream.Name+"."+consumer.Durable+"."+topic)
			},
			func() error { _, err := b.makeConsumer(ctx, s, consumer); return err },
		},
		{
			broker.Change{
				Object: "stream " + owners.Name,
				Detail: fmt.Sprintf("subjects %s; file storage; the last message of each, for ever", owners.Subjects[0]),
			},
			// A service asks the same at its start, and its user may have no other permission.
			func() error {
				_, _, err := b.keptOwner(ctx, s, owners.Name+"."+consumer.Durable)
				return err
			},
			func() error { return b.permitted(ctx, s, "STREAM.CREATE."+owners.Name) },
			func() error { return b.makeOwners(ctx, s) },
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
