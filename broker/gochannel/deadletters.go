package gochannel

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/timer"
)

// VisitDeadLetters calls visit with each dead letter, of all tenants, that is stored when the
// visit begins, oldest first. See [broker.DeadLetters] for the contract.
func (b *Broker) VisitDeadLetters(
	ctx context.Context, _ timer.TenantID, visit func(deadLetter *message.Message) (remove bool, err error),
) error {
	if err := cmp.Or(b.Ready(ctx), ctx.Err()); err != nil {
		return err
	}
	b.mu.Lock()
	kept := slices.Clone(b.deadLetters)
	b.mu.Unlock()
	for _, d := range kept {
		seen := d.Copy()
		seen.Payload = bytes.Clone(d.Payload) // visit may write into it
		remove, err := visit(seen)
		if err == nil && remove {
			b.mu.Lock()
			b.deadLetters = slices.DeleteFunc(slices.Clone(b.deadLetters), func(o *message.Message) bool { return o == d })
			b.mu.Unlock()
		}
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}
