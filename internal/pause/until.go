package pause

import (
	"context"
	"time"
)

// Pauses of [Until].
const (
	minPause = time.Millisecond
	maxPause = 50 * time.Millisecond
)

// Until calls done, with growing pauses, until it returns true or an error. It
// returns that error, or the one of ctx.
func Until(ctx context.Context, done func() (bool, error)) error {
	for wait := minPause; ; wait = min(2*wait, maxPause) {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if !For(ctx, wait) {
			return ctx.Err()
		}
	}
}
