package gochannel

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/timer"
)

// batch is how many dead letters are visited at once.
const batch = 256

// VisitDeadLetters calls visit with the dead letters, of all tenants, that are stored when the
// visit begins, oldest first. See [broker.DeadLetters] for the contract.
func (b *Broker) VisitDeadLetters(ctx context.Context, _ timer.TenantID, _ string, visit broker.DeadLetterVisit) error {
	if err := cmp.Or(b.Ready(ctx), ctx.Err()); err != nil {
		return err
	}
	b.mu.Lock()
	kept := slices.Clone(b.deadLetters)
	b.mu.Unlock()
	for part := range slices.Chunk(kept, batch) {
		seen := make([]*message.Message, len(part))
		for i, d := range part {
			seen[i] = d.Copy()
			seen[i].Payload = bytes.Clone(d.Payload) // visit may write into it
		}
		removed, err := visit(seen)
		gone := make(map[*message.Message]bool)
		for i, d := range part {
			gone[d] = slices.Contains(removed, seen[i])
		}
		b.mu.Lock()
		b.deadLetters = slices.DeleteFunc(slices.Clone(b.deadLetters), func(o *message.Message) bool { return gone[o] })
		b.mu.Unlock()
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}
