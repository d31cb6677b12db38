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

// maxRest is the longest rest.
const maxRest = time.Minute

// Rest returns how long to rest after work that took some time, so that the work, done
// again and again, takes no more than a fiftieth of the time, but at least least, and at most
// a minute. It is for work that gets slow on PostgreSQL while a transaction holds a snapshot,
// and for which no timer waits.
func Rest(took, least time.Duration) time.Duration { return max(least, min(49*took, maxRest)) }
