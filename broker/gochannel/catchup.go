package gochannel

import (
	"context"
	"maps"

	"github.com/event-service-agent/timer-service/internal/pause"
)

// CatchUp waits until all messages that are queued for the role, or in flight, were acked
// or nacked.
func (b *Broker) CatchUp(ctx context.Context, role string) error {
	// open holds the deliveries to wait for. It is nil until the role has subscribed.
	var open map[*delivery]bool
	return pause.Until(ctx, func() (bool, error) {
		_, away := b.Interruptions()
		b.mu.Lock()
		defer b.mu.Unlock()
		g := b.groups[groupID{b.opt.Routing.Subscription(), role}]
		if away != nil || g == nil {
			return false, away
		}
		if open == nil {
			open = maps.Clone(g.open)
		}
		maps.DeleteFunc(open, func(d *delivery, _ bool) bool { return !g.open[d] || d.waits() })
		return len(open) == 0, nil
	})
}

// Interruptions returns 0, since there is no connection to lose.
func (b *Broker) Interruptions() (int64, error) { return 0, b.Ready(context.Background()) }
