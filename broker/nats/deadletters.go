package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/ThreeDotsLabs/watermill/message"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/timer"
)

// VisitDeadLetters calls visit with each dead letter of a tenant, or of all, that the
// stream has when the visit begins, oldest first. If visit returns true the dead letter
// is deleted. See [broker.DeadLetters] for the contract.
//
// It makes no consumer, so that it needs no more permissions than to read and delete
// messages of the stream.
func (b *Broker) VisitDeadLetters(
	ctx context.Context, tenant timer.TenantID, visit func(deadLetter *message.Message) (remove bool, err error),
) error {
	if err := broker.ValidateVisit(tenant); err != nil {
		return err
	}
	s, err := b.current()
	if err == nil {
		err = b.visit(ctx, s, tenant, visit)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && !errors.Is(err, ctx.Err()):
		err = errors.Join(ctx.Err(), err)
	}
	return fmt.Errorf("dead letters in stream %s: %w", b.opt.Stream, err)
}

func (b *Broker) visit(
	ctx context.Context, s *session, tenant timer.TenantID, visit func(deadLetter *message.Message) (bool, error),
) error {
	stream, err := b.lookUpStream(ctx, s)
	if err != nil {
		return err
	}
	r := reading{Broker: b, filter: b.opt.Routing.DeadLettersOf(cmp.Or(tenant, "*")), next: 1, end: stream.State.LastSeq}
	for r.next <= r.end {
		found, err := r.read(ctx, s)
		if err != nil || len(found) == 0 {
			return err
		}
		for _, m := range found {
			if err := cmp.Or(ctx.Err(), b.visitOne(ctx, s, tenant, m, visit)); err != nil {
				return err
			}
		}
	}
	return nil
}

// visitOne visits a dead letter, unless it is of another tenant.
func (b *Broker) visitOne(
	ctx context.Context, s *session, tenant timer.TenantID, found stored, visit func(deadLetter *message.Message) (bool, error),
) error {
	deadLetter := found.message()
	if owner, ok := b.opt.Routing.DeadLetterOf(found.Subject, deadLetter); !ok || tenant != "" && owner != tenant {
		return nil // it is another tenant's, in a topic that all share
	}
	remove, err := visit(deadLetter)
	if err == nil && remove {
		err = b.remove(ctx, s, found)
	}
	return err
}

// message returns the message as it was published.
func (m stored) message() *message.Message {
	header, _ := natsgo.DecodeHeadersMsg(m.Header) // broken headers must not hide a message
	msg := unmarshal(m.Subject, header, m.Data)
	msg.Metadata[broker.MetaPosition] = strconv.FormatUint(m.Sequence, 10)
	return msg
}

// remove deletes a message. It returns nil if the message was deleted meanwhile. If the
// stream was created again, another message has the number now, and stays.
func (b *Broker) remove(ctx context.Context, s *session, old stored) error {
	now, found, err := b.get(ctx, s, b.opt.Stream, getRequest{Sequence: old.Sequence})
	switch {
	case err != nil:
		return err
	case !found:
		return nil
	case !now.Time.Equal(old.Time) || now.Subject != old.Subject:
		return fmt.Errorf("message %d is a different one now: the stream was created again", old.Sequence)
	}
	var done struct{}
	err = b.ask(ctx, s, "STREAM.MSG.DELETE."+b.opt.Stream, struct {
		Sequence uint64 `json:"seq"`
		NoErase  bool   `json:"no_erase"` // the bytes on disk need not be overwritten
	}{old.Sequence, true}, &done)
	if api, ok := errors.AsType[*jetstream.APIError](err); ok && api.ErrorCode == codeSequenceNotFound {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove %d: %w", old.Sequence, err)
	}
	return nil
}

// codeSequenceNotFound is the error for deleting a message that is not there.
const codeSequenceNotFound = 10043
