package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
)

// The owner of a durable consumer is the only message on a subject of its own, in a small
// stream next to ours, which keeps it for ever and takes no second message on that subject.
// Without that, a producer could replace the owner: the server acks a command on whatever
// subject its producer names. To replace an owner is to delete it, and then to store another.

// ownerStream returns the name of the stream that holds owners.
func (b *Broker) ownerStream() string { return b.opt.Stream + "-owner" }

// ownerSubject returns the subject of the owner of a role's commands.
func (b *Broker) ownerSubject(role string) string {
	return b.ownerStream() + "." + b.commandsOf(role)
}

// Limits of the stream that holds owners, and of its messages. Some servers require one, and
// version 0.1.0 set a quarter of it, which a producer could fill. A message that a consumer of ours
// reads can be delivered to the owner's subject, and is stored once, on the subject that it had.
const (
	ownerBytes    = 4 << 20
	ownerMsgBytes = 8 << 10
)

// ownerConfig returns the configuration of the stream that holds owners. It is not a
// key-value bucket, since the subjects of a bucket do not cross a leaf node.
func (b *Broker) ownerConfig(role string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:                 b.ownerStream(),
		Description:          "Which database owns a consumer of stream " + b.opt.Stream,
		Subjects:             []string{b.ownerSubject(role)},
		Storage:              jetstream.FileStorage,
		Discard:              jetstream.DiscardNew,
		DiscardNewPerSubject: true,
		MaxMsgsPerSubject:    1,
		MaxBytes:             ownerBytes,
		MaxMsgSize:           ownerMsgBytes,
	}
}

// Claim keeps the owner of the durable consumer of a role and the commands.
func (b *Broker) Claim(ctx context.Context, role string, owner broker.Owner, takeover bool) (broker.Owner, error) {
	s, err := b.current()
	if err != nil {
		return broker.Owner{}, err
	}
	if _, fit := b.fitOwners.Load(role); !fit && !b.opt.Verify {
		if err := b.makeOwners(ctx, s, role); err != nil {
			return broker.Owner{}, err
		}
	}
	for ctx.Err() == nil {
		kept, seq, err := b.keptOwner(ctx, s, role)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			b.fitOwners.Delete(role)
			return broker.Owner{}, fmt.Errorf("stream %s: %w", b.ownerStream(), errMissing)
		case err != nil:
			return broker.Owner{}, fmt.Errorf("find the owner of the commands: %w", err)
		case kept.Database != "" && (kept.Database == owner.Database || !takeover):
			return kept, nil
		case kept.Database != "":
			owner.Broker = kept.Broker
		}
		if err = b.keepOwner(ctx, s, role, owner, seq); err == nil {
			return owner, nil
		}
		switch api, _ := errors.AsType[*jetstream.APIError](err); {
		case api == nil:
		case api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence, api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant: // another process was faster
			continue
		case seq > 0 && strings.HasPrefix(api.Description, "maximum messages per subject"):
			if err = b.removeOne(ctx, s, b.ownerStream(), seq); err == nil {
				continue
			}
		}
		return broker.Owner{}, fmt.Errorf("own the commands: %w", err)
	}
	return broker.Owner{}, ctx.Err()
}

// keptOwner returns the owner that is kept for a role, and the sequence of its message. A
// message that no service has stored, such as an ack that a producer had sent there, counts
// as absent, though its sequence is returned.
func (b *Broker) keptOwner(ctx context.Context, s *session, role string) (broker.Owner, uint64, error) {
	kept, err := b.get(ctx, s, b.ownerStream(), getRequest{Last: b.ownerSubject(role)})
	header, _ := natsgo.DecodeHeadersMsg(kept.Header)
	if header.Get(jetstream.ExpectedLastSubjSeqHeader) == "" { // no answer of the server has it, and no event or dead letter
		return broker.Owner{}, kept.Sequence, err
	}
	return broker.ParseOwner(string(kept.Data)), kept.Sequence, err
}

// keepOwner stores an owner if the last message on its subject still has the given
// sequence.
func (b *Broker) keepOwner(ctx context.Context, s *session, role string, owner broker.Owner, last uint64) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	m := natsgo.NewMsg(b.ownerSubject(role))
	ctx, stop := b.requesting(ctx, m.Subject)
	defer stop()
	m.Data = []byte(owner.String())
	_, err := s.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(last))
	return cause(ctx, err)
}

// ownersFit returns how the stream that holds owners is configured, and nil if it takes one
// message for a role and no others, or if only that it exists may be seen. The error is
// [jetstream.ErrStreamNotFound] if there is no such stream, and errOwnersOpen if it takes more.
func (b *Broker) ownersFit(ctx context.Context, s *session, role string) (is jetstream.StreamConfig, err error) {
	var info jetstream.StreamInfo
	err = b.ask(ctx, s, "STREAM.INFO."+b.ownerStream(), struct{}{}, &info)
	if errors.Is(err, broker.ErrDenied) {
		_, _, err = b.keptOwner(ctx, s, role)
		return is, err
	}
	if c := info.Config; err == nil && (!c.DiscardNewPerSubject || !slices.Contains(c.Subjects, b.ownerSubject(role))) {
		err = errOwnersOpen
	}
	return info.Config, err
}

// errOwnersOpen says that the stream that holds owners takes messages of producers, or none
// for the role, as version 0.1.0 has made it.
var errOwnersOpen = errors.New("the stream that holds owners takes messages of others")

// makeOwners makes the stream that holds owners, with as many replicas as our stream has, or
// changes the one of an earlier version.
func (b *Broker) makeOwners(ctx context.Context, s *session, role string) error {
	want := b.ownerConfig(role)
	is, err := b.ownersFit(ctx, s, role)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		ours, failed := b.lookUpStream(ctx, s)
		if failed != nil {
			return fmt.Errorf("stream %s: %w", b.opt.Stream, failed)
		}
		want.Replicas = ours.Config.Replicas
		err = b.ask(ctx, s, "STREAM.CREATE."+want.Name, want, new(struct{}))
	case errors.Is(err, errOwnersOpen):
		open := func(subject string) bool { return strings.HasSuffix(subject, "*") || subject == want.Subjects[0] }
		is.Subjects = append(slices.DeleteFunc(is.Subjects, open), want.Subjects...)
		is.DiscardNewPerSubject, is.MaxBytes, is.MaxMsgSize = true, want.MaxBytes, want.MaxMsgSize
		err = b.ask(ctx, s, "STREAM.UPDATE."+want.Name, is, new(struct{}))
	}
	if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return fmt.Errorf("stream %s: %w", want.Name, err)
	}
	b.fitOwners.Store(role, true)
	return nil
}
