package poller

import (
	"context"
	"log/slog"
	"time"
)

const (
	jumpLimit   = time.Minute     // a clock may run ahead by this much between two looks
	holdLimit   = 5 * time.Second // longest hold while nobody contradicts the clock
	recheck     = time.Second     // between two questions to the reference
	refPatience = time.Second     // longest wait for the reference
)

// A guard holds firing when the clock jumps forward. A wrong clock fires
// timers hours early, and Reached is final. A clock that was wrong before and
// is right now looks the same; so does a machine that wakes from suspend. So
// the guard asks a second source, and lets go when that agrees, or when there
// is none to contradict for holdLimit. Once contradicted it waits until the two
// agree again: a reference that falls silent has not changed its mind. A clock
// that steps back needs no guard: what is Reached does not fire again.
type guard struct {
	log       *slog.Logger
	reference func(context.Context) (time.Time, error) // nil if there is none

	expected     time.Time // the clock should not be much later than this
	since        time.Time // when the hold began, by the jumped clock; zero if none
	contradicted bool      // the reference disagreed during the hold
}

// expect notes when the poller meant to look again.
func (g *guard) expect(next time.Time) {
	if g.since.IsZero() {
		g.expected = next
	}
}

// hold returns zero if now can be believed, else how long to wait before
// asking again.
func (g *guard) hold(ctx context.Context, now time.Time) time.Duration {
	if g.expected.IsZero() || now.Sub(g.expected) <= jumpLimit {
		g.release(now)
		return 0
	}
	if g.since.IsZero() || now.Before(g.since) {
		g.since = now
		g.log.WarnContext(ctx, "clock jumped forward, firing is on hold",
			"expected", g.expected, "now", now, "jump", now.Sub(g.expected))
	}
	agrees, known := g.ask(ctx, now)
	switch {
	case known && agrees, !known && !g.contradicted && now.Sub(g.since) >= holdLimit:
		g.log.WarnContext(ctx, "clock is believed, firing goes on", "now", now, "confirmed", known)
		g.release(now)
		return 0
	case known:
		g.contradicted = true
		g.log.ErrorContext(ctx, "clock disagrees with the reference, firing is on hold", "now", now)
	}
	return recheck
}

func (g *guard) release(now time.Time) {
	g.expected, g.since, g.contradicted = now, time.Time{}, false
}

// ask reports whether the reference agrees with now, and whether it answered.
func (g *guard) ask(ctx context.Context, now time.Time) (agrees, known bool) {
	if g.reference == nil {
		return false, false
	}
	ctx, cancel := context.WithTimeout(ctx, refPatience)
	defer cancel()
	t, err := g.reference(ctx)
	if err != nil {
		return false, false
	}
	return now.Sub(t) <= jumpLimit, true
}
