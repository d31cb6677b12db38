// Package pause waits for a time, or for the end of a context.
package pause

import (
	"context"
	"time"
)

// For waits for d. It returns false if ctx ended before, or meanwhile.
func For(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return ctx.Err() == nil
	}
}

// Rest returns how long to rest after work that took some time, at least least: so long that
// the work, done again and again, takes no more than a fiftieth of the time. It is for work
// that may get slow for a while and is not on the way of a timer.
func Rest(took, least time.Duration) time.Duration { return max(least, 49*took) }
