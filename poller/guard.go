package poller

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

const (
	jumpLimit   = time.Minute     // a clock may gain this much between two looks
	holdLimit   = 5 * time.Second // longest hold while nobody contradicts the clock
	recheck     = time.Second     // between two questions to the reference
	refPatience = time.Second     // longest wait for the reference
)

// A guard holds firing when the clock jumps forward. A wrong clock fires
// timers hours early, and Reached is final.
//
// A jump is what the clock gained on elapsed since the last look, however long
// ago that was. A clock that was wrong before and is right now looks the same;
// so does a machine that wakes from suspend. So the guard asks a second source,
// and lets go when that agrees, or when there is none to contradict for
// holdLimit. Once contradicted it waits until the two agree again: a reference
// that falls silent has not changed its mind. A clock that steps back needs no
// guard: what is Reached does not fire again.
//
// At the first look there is nothing to compare with, and the reference is
// asked at once. Without one the clock has to be believed.
type guard struct {
	log       *slog.Logger
	reference func(context.Context) (time.Time, error) // nil if there is none
	elapsed   func() time.Duration                     // since any fixed moment, by a clock that nobody sets

	base         time.Time     // the clock when it was believed last; zero before the first look
	baseElapsed  time.Duration // elapsed at that moment
	held         bool          // firing is on hold
	since        time.Duration // elapsed when the hold began
	contradicted bool          // the reference disagreed during the hold
}

// gained returns by how much the clock is further than it should be.
func (g *guard) gained(now time.Time) time.Duration {
	if g.base.IsZero() {
		return 0
	}
	return now.Sub(g.base) - (g.elapsed() - g.baseElapsed)
}

// jumped reports whether the clock jumped since it was believed last.
func (g *guard) jumped(now time.Time) bool { return g.gained(now) > jumpLimit }

// hold returns zero if now can be believed, else how long to wait before
// asking again.
func (g *guard) hold(ctx context.Context, now time.Time) time.Duration {
	first := g.base.IsZero()
	if !first && !g.jumped(now) {
		g.believe(now)
		return 0
	}
	if !g.held {
		g.held, g.since = true, g.elapsed()
		if !first {
			g.log.WarnContext(ctx, "clock jumped forward, firing is on hold", "now", now, "jump", g.gained(now))
		}
	}
	said := g.ask(ctx, now)
	switch {
	case said == disagrees:
		g.contradicted = true
		g.log.ErrorContext(ctx, "clock disagrees with the reference, firing is on hold", "now", now)
	case said == agrees, first && said == none, !g.contradicted && g.elapsed()-g.since >= holdLimit:
		if !first {
			g.log.WarnContext(ctx, "clock is believed, firing goes on", "now", now, "confirmed", said == agrees)
		}
		g.believe(now)
		return 0
	}
	return recheck
}

func (g *guard) believe(now time.Time) {
	g.base, g.baseElapsed = now, g.elapsed()
	g.held, g.contradicted = false, false
}

// An answer is what the reference said about the clock.
type answer int

const (
	silent    answer = iota // nothing; it may later
	none                    // nothing, and it never will
	agrees                  // it is right
	disagrees               // it is ahead
)

// ask asks the reference whether now can be.
func (g *guard) ask(ctx context.Context, now time.Time) answer {
	if g.reference == nil {
		return none
	}
	ctx, cancel := context.WithTimeout(ctx, refPatience)
	defer cancel()
	t, err := g.reference(ctx)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return none
	case err != nil:
		return silent
	case now.Sub(t) <= jumpLimit:
		return agrees
	}
	return disagrees
}
