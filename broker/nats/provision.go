package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
)

// Provision makes the stream, the one that keeps owners, and the durable consumer of
// [Options.Role], or, if dry, only returns what it would make. What exists is verified
// and never changed. It needs the permissions of an administrator, unless all is there.
func (b *Broker) Provision(ctx context.Context, dry bool) (changes []broker.Change, err error) {
	if err := b.opt.Routing.Validate(); err != nil {
		return nil, fmt.Errorf("routing: %w", err)
	}
	b = New(b.opt, b.log) // Run may be running
	s, err := b.dial(ctx)
	if err != nil {
		return nil, err
	}
	if s.owned {
		defer s.conn.Close()
	}
	if err := modern(s.conn.ConnectedServerVersion()); err != nil {
		return nil, err
	}
	made, err := b.provisionStream(ctx, s, dry)
	if made != nil {
		changes = append(changes, *made)
	}
	if err != nil {
		return changes, fmt.Errorf("stream %s: %w", b.opt.Stream, err)
	}
	absent := dry && len(changes) > 0
	for _, provision := range []func() (*broker.Change, error){
		func() (*broker.Change, error) { return b.provisionConsumer(ctx, s, dry, absent) },
		func() (*broker.Change, error) { return b.provisionOwners(ctx, s, dry) },
	} {
		made, err := provision()
		if made != nil {
			changes = append(changes, *made)
		}
		if err != nil {
			return changes, err
		}
	}
	return changes, nil
}

func (b *Broker) provisionStream(ctx context.Context, s *session, dry bool) (*broker.Change, error) {
	info, err := b.lookUpStream(ctx, s)
	if err == nil {
		return nil, b.verify(info.Config)
	}
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, err
	}
	want := b.streamConfig()
	made := &broker.Change{
		Object: "stream " + want.Name,
		Detail: fmt.Sprintf("subjects %s; file storage; at most %d bytes, then new messages are refused; kept for %v; ids known for %v",
			strings.Join(want.Subjects, " "), want.MaxBytes, want.MaxAge, want.Duplicates),
	}
	if dry {
		return made, nil
	}
	info, err = b.create(ctx, s)
	if err != nil {
		return nil, err
	}
	return made, b.verify(info.Config)
}

func (b *Broker) provisionConsumer(ctx context.Context, s *session, dry, absent bool) (*broker.Change, error) {
	topic := b.opt.Routing.Subscription()
	want := consumerConfig(b.opt.Prefix+durable(b.opt.Role, topic), topic)
	if !absent {
		info, err := b.lookUpConsumer(ctx, s, want.Durable)
		switch {
		case err == nil:
			return nil, verifyConsumer(info.Config, want)
		case !errors.Is(err, jetstream.ErrConsumerNotFound):
			return nil, fmt.Errorf("consumer %s: %w", want.Durable, err)
		}
	}
	made := &broker.Change{
		Object: "consumer " + want.Durable,
		Detail: fmt.Sprintf("of stream %s; filter %s; durable, pull; explicit acks within %v; unlimited deliveries; unlimited messages in flight",
			b.opt.Stream, topic, want.AckWait),
	}
	if dry {
		return made, nil
	}
	info, err := b.makeConsumer(ctx, s, want)
	if err != nil {
		return nil, fmt.Errorf("consumer %s: %w", want.Durable, err)
	}
	return made, verifyConsumer(info.Config, want)
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
