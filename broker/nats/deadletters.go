package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/timer"
)

// VisitDeadLetters calls visit with each dead letter of a tenant, or of all, that the
// stream has when the visit begins, oldest first, and deletes the ones that visit returns. See
// [broker.DeadLetters] for the contract.
//
// It makes no consumer, so that it needs no more permissions than to read and delete
// messages of the stream.
func (b *Broker) VisitDeadLetters(ctx context.Context, tenant timer.TenantID, from string, visit broker.DeadLetterVisit) error {
	first, _ := strconv.ParseUint(from, 10, 64) // 0 without it
	r := streamReader{Broker: b, filter: b.opt.Routing.DeadLettersOf(cmp.Or(tenant, "*")), first: first}
	return r.run(ctx, nil, nil, func(batch []broker.Stored) error {
		letters := make([]*message.Message, len(batch))
		for i, m := range batch {
			letters[i] = m.Message
			letters[i].Metadata[broker.MetaSeek] = letters[i].Metadata[broker.MetaPosition]
		}
		removed, err := visit(letters)
		return cmp.Or(b.remove(ctx, removed), err, ctx.Err())
	})
}

// removeAtOnce is how many messages are deleted at once.
const removeAtOnce = 64

// remove deletes messages of the stream.
func (b *Broker) remove(ctx context.Context, letters []*message.Message) error {
	if len(letters) == 0 {
		return nil
	}
	s, err := b.current()
	if err != nil {
		return err
	}
	if _, err := b.lookUpStream(ctx, s); err != nil { // in another stream other messages have the numbers
		return err
	}
	var removals errgroup.Group
	removals.SetLimit(removeAtOnce)
	for _, m := range letters {
		removals.Go(func() error {
			sequence, err := strconv.ParseUint(m.Metadata[broker.MetaSeek], 10, 64)
			if err != nil {
				return err
			}
			return b.removeOne(ctx, s, b.opt.Stream, sequence)
		})
	}
	return removals.Wait()
}

// removeOne deletes a message of a stream. It returns nil if it was deleted meanwhile.
func (b *Broker) removeOne(ctx context.Context, s *session, stream string, sequence uint64) error {
	err := b.ask(ctx, s, "STREAM.MSG.DELETE."+stream, struct {
		Sequence uint64 `json:"seq"`
		NoErase  bool   `json:"no_erase"` // the bytes on disk need not be overwritten
	}{sequence, true}, new(struct{}))
	if api, ok := errors.AsType[*jetstream.APIError](err); ok && api.ErrorCode == codeSequenceNotFound {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove %d: %w", sequence, err)
	}
	return nil
}

// codeSequenceNotFound is the error for deleting a message that is not there.
const codeSequenceNotFound = 10043
