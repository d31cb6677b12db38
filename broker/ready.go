package broker

import (
	"context"
	"time"
)

// readyInterval is how often AwaitReady asks.
const readyInterval = time.Millisecond

// AwaitReady returns nil as soon as b is ready, for a program that publishes right after
// its start. When ctx is done first it returns what b is waiting for.
func AwaitReady(ctx context.Context, b Broker) error {
	tick := time.NewTicker(readyInterval)
	defer tick.Stop()
	for {
		err := b.Ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}
