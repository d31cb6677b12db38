package poller

import (
	"context"
	"log/slog"
	"time"
)

const (
	brakePause = 5 * time.Millisecond   // between two questions whether there is room
	brakeRest  = 100 * time.Millisecond // the same during a long hold
	brakeLong  = time.Second            // after which a hold is long
	brakeTold  = 10 * time.Second       // after which somebody may want to know
)

// A brake holds firing while the way out is full. What is fired then only waits
// there, before the timers of others: what is not fired yet can still be shared
// out among tenants. Nothing is late that would not be anyway.
type brake struct {
	log  *slog.Logger
	full func() bool

	since time.Time // when the hold began; zero if there is none
	told  bool      // of the hold
}

// hold returns zero if there is room, else how long to wait before asking again.
func (b *brake) hold(ctx context.Context, now time.Time) time.Duration {
	if !b.full() {
		if b.told {
			b.log.InfoContext(ctx, "firing goes on", "held", now.Sub(b.since))
		}
		b.since, b.told = time.Time{}, false
		return 0
	}
	if b.since.IsZero() || now.Before(b.since) {
		b.since = now
	}
	held := now.Sub(b.since)
	if held >= brakeTold && !b.told {
		b.told = true
		b.log.WarnContext(ctx, "firing is on hold: events that fired before wait for the broker", "held", held)
	}
	if held < brakeLong {
		return brakePause
	}
	return brakeRest
}
