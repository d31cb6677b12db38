package nats

import (
	"context"
	"errors"
	"fmt"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
)

// The owner of a durable consumer is the only message on a subject of its own, in a small
// stream beside ours, which keeps it for ever. The server accepts a new owner only from a
// client that names the sequence of the last one.

// ownerStream returns the name of the stream that holds owners.
func (b *Broker) ownerStream() string { return b.opt.Stream + "-owner" }

// ownerConfig returns the configuration of the stream that holds owners. It is not a
// key-value bucket, since the subjects of a bucket do not cross a leaf node.
func (b *Broker) ownerConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              b.ownerStream(),
		Description:       "Which database owns a consumer of stream " + b.opt.Stream,
		Subjects:          []string{b.ownerStream() + ".*"},
		Storage:           jetstream.FileStorage,
		Discard:           jetstream.DiscardNew,
		MaxMsgsPerSubject: 1,
		MaxBytes:          1 << 20, // some servers require a limit
	}
}

// Claim keeps the owner of the durable consumer of a role and the commands.
func (b *Broker) Claim(ctx context.Context, role string, owner broker.Owner, takeover bool) (broker.Owner, error) {
	s, err := b.current()
	if err != nil {
		return broker.Owner{}, err
	}
	subject := b.ownerStream() + "." + b.commandsOf(role)
	for ctx.Err() == nil {
		kept, seq, err := b.keptOwner(ctx, s, subject)
		if errors.Is(err, jetstream.ErrStreamNotFound) && !b.opt.Verify {
			if err := b.makeOwners(ctx, s); err != nil {
				return broker.Owner{}, err
			}
			continue
		}
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			return broker.Owner{}, fmt.Errorf("stream %s: %w", b.ownerStream(), errMissing)
		case err != nil:
			return broker.Owner{}, fmt.Errorf("find the owner of the commands: %w", err)
		case seq > 0 && (kept.Database == owner.Database || !takeover):
			return kept, nil
		case seq > 0:
			owner.Broker = kept.Broker
		}
		if err = b.keepOwner(ctx, s, subject, owner, seq); err == nil {
			return owner, nil
		}
		if api, ok := errors.AsType[*jetstream.APIError](err); !ok || api.ErrorCode != jetstream.JSErrCodeStreamWrongLastSequence {
			return broker.Owner{}, fmt.Errorf("own the commands: %w", err)
		} // another process was faster
	}
	return broker.Owner{}, ctx.Err()
}

// keptOwner returns the owner that is kept on a subject, and its sequence in the stream,
// which is 0 if there is none.
func (b *Broker) keptOwner(ctx context.Context, s *session, subject string) (broker.Owner, uint64, error) {
	kept, _, err := b.get(ctx, s, b.ownerStream(), getRequest{Last: subject})
	return broker.ParseOwner(string(kept.Data)), kept.Sequence, err
}

// keepOwner stores an owner if the last message on the subject still has the given
// sequence.
func (b *Broker) keepOwner(ctx context.Context, s *session, subject string, owner broker.Owner, last uint64) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	ctx, stop := b.requesting(ctx, subject)
	defer stop()
	m := natsgo.NewMsg(subject)
	m.Data = []byte(owner.String())
	_, err := s.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(last))
	return cause(ctx, err)
}

// makeOwners makes the stream that holds owners, with as many replicas as our stream has.
func (b *Broker) makeOwners(ctx context.Context, s *session) error {
	ours, err := b.lookUpStream(ctx, s)
	if err != nil {
		return fmt.Errorf("stream %s: %w", b.opt.Stream, err)
	}
	want := b.ownerConfig()
	want.Replicas = ours.Config.Replicas
	err = b.ask(ctx, s, "STREAM.CREATE."+want.Name, want, new(struct{}))
	if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return fmt.Errorf("stream %s: %w", want.Name, err)
	}
	return nil
}
