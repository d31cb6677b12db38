package poller

import (
	"context"
	"log/slog"
	"time"
)

const (
	fullPause     = 5 * time.Millisecond   // between two checks of a full outbox
	longFullPause = 100 * time.Millisecond // between two checks once it has been full for longFull
	longFull      = time.Second
	warnFull      = 10 * time.Second // after which a full outbox is logged
)

// Backpressure stops firing while the outbox is full. Events that were fired then would only
// wait there, in front of the events of other tenants. Timers that have not fired yet can
// still be shared out among tenants. No timer is later because of that.
type backpressure struct {
	log  *slog.Logger
	full func() bool

	since  time.Time // since when the outbox is full; zero if it is not
	warned bool
}

// wait returns how long to wait before asking again; zero if timers may fire.
func (b *backpressure) wait(ctx context.Context, now time.Time) time.Duration {
	if !b.full() {
		if b.warned {
			b.log.InfoContext(ctx, "firing goes on", "paused", now.Sub(b.since))
		}
		b.since, b.warned = time.Time{}, false
		return 0
	}
	if b.since.IsZero() || now.Before(b.since) {
		b.since = now
	}
	paused := now.Sub(b.since)
	if paused >= warnFull && !b.warned {
		b.warned = true
		b.log.WarnContext(ctx, "firing is paused: events that fired before wait in the outbox", "paused", paused)
	}
	if paused < longFull {
		return fullPause
	}
	return longFullPause
}
