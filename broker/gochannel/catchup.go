package gochannel

import (
	"context"

	"github.com/event-service-agent/timer-service/internal/pause"
)

// CatchUp waits until all messages that are queued for the role, or in flight, were acked
// or nacked.
func (b *Broker) CatchUp(ctx context.Context, role string) error {
	// open holds the deliveries to wait for, with the number of their answers at the time of
	// the call. It is nil until the role has subscribed.
	var open map[*delivery]int
	return pause.Until(ctx, func() (bool, error) {
		_, away := b.Interruptions()
		b.mu.Lock()
		defer b.mu.Unlock()
		g := b.groups[b.opt.Routing.Subscription()][role]
		if away != nil || g == nil {
			return false, away
		}
		if open == nil {
			open = make(map[*delivery]int)
			for d := range g.open {
				open[d] = d.answers
			}
		}
		for d, before := range open {
			if d.answers == before {
				return false, nil
			}
		}
		return true, nil
	})
}

// Interruptions returns 0, since there is no connection to lose.
func (b *Broker) Interruptions() (int64, error) { return 0, b.Ready(context.Background()) }
