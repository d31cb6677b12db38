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
	return b.readTopic(ctx, b.opt.Routing.DeadLettersOf(cmp.Or(tenant, "*")), nil, nil, func(batch []broker.Stored) error {
		for _, m := range batch {
			remove, err := visit(m.Message)
			if err == nil && remove {
				err = b.remove(ctx, m.Number)
			}
			if err = cmp.Or(err, ctx.Err()); err != nil {
				return err
			}
		}
		return nil
	})
}

// message returns the message as it was published.
func (m stored) message() *message.Message {
	header, _ := natsgo.DecodeHeadersMsg(m.Header) // broken headers must not hide a message
	msg := unmarshal(m.Subject, header, m.Data)
	msg.Metadata[broker.MetaPosition] = strconv.FormatUint(m.Sequence, 10)
	return msg
}

// remove deletes a message of the stream. It returns nil if it was deleted meanwhile.
func (b *Broker) remove(ctx context.Context, number int64) error {
	s, err := b.current()
	if err != nil {
		return err
	}
	if _, err := b.lookUpStream(ctx, s); err != nil { // in another stream another message has the number
		return err
	}
	err = b.ask(ctx, s, "STREAM.MSG.DELETE."+b.opt.Stream, struct {
		Sequence int64 `json:"seq"`
		NoErase  bool  `json:"no_erase"` // the bytes on disk need not be overwritten
	}{number, true}, new(struct{}))
	if api, ok := errors.AsType[*jetstream.APIError](err); ok && api.ErrorCode == codeSequenceNotFound {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove %d: %w", number, err)
	}
	return nil
}

// codeSequenceNotFound is the error for deleting a message that is not there.
const codeSequenceNotFound = 10043
