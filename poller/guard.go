package poller

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

const (
	jumpLimit        = time.Minute     // a clock may gain this much between two polls
	waitLimit        = 5 * time.Second // longest wait while no reference contradicts the clock
	recheck          = time.Second     // between two requests to the reference
	referenceTimeout = time.Second     // longest wait for the reference
)

// A guard stops firing when the clock jumps forward. A wrong clock fires timers
// hours early, and Reached is final.
//
// A jump is what the clock gained on elapsed since the last poll, however long ago
// that was. A clock that was wrong before and is right now looks the same; so does
// a machine that wakes from suspend. So the guard asks a reference, and lets
// timers fire when that agrees, or when no reference has contradicted for
// waitLimit. Once contradicted it waits until the two agree again: a reference
// that stops answering has not agreed. A clock that steps back needs no guard:
// what is Reached does not fire again.
//
// At the first poll there is nothing to compare with, and the reference is asked
// at once. Without one the clock is believed.
type guard struct {
	log       *slog.Logger
	reference func(context.Context) (time.Time, error) // nil if there is none
	elapsed   func() time.Duration                     // since any fixed moment, by a clock that is never set

	base         time.Time     // the clock when it was believed last; zero before the first poll
	baseElapsed  time.Duration // elapsed at that time
	waiting      bool          // nothing fires
	since        time.Duration // elapsed when that began
	contradicted bool          // the reference disagreed meanwhile
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

// doubts reports whether something says that the clock is wrong. That the reference does
// not answer at the first poll says nothing.
func (g *guard) doubts() bool { return g.waiting && (g.contradicted || !g.base.IsZero()) }

// wait returns zero if now can be believed, else how long to wait before
// asking again.
func (g *guard) wait(ctx context.Context, now time.Time) time.Duration {
	first := g.base.IsZero()
	if !first && !g.jumped(now) {
		g.believe(now)
		return 0
	}
	if !g.waiting {
		g.waiting, g.since = true, g.elapsed()
		if !first {
			g.log.WarnContext(ctx, "clock jumped forward, firing is paused", "now", now, "jump", g.gained(now))
		}
	}
	answer := g.ask(ctx, now)
	switch {
	case answer == disagrees:
		g.contradicted = true
		g.log.ErrorContext(ctx, "clock disagrees with the reference, firing is paused", "now", now)
	case answer == agrees, first && answer == none, !g.contradicted && g.elapsed()-g.since >= waitLimit:
		if !first {
			g.log.WarnContext(ctx, "clock accepted, firing goes on", "now", now, "confirmed", answer == agrees)
		}
		g.believe(now)
		return 0
	}
	return recheck
}

func (g *guard) believe(now time.Time) {
	g.base, g.baseElapsed = now, g.elapsed()
	g.waiting, g.contradicted = false, false
}

// An opinion is what the reference says about the clock.
type opinion int

const (
	silent    opinion = iota // nothing; it may later
	none                     // nothing, and it never will
	agrees                   // it is right
	disagrees                // it is ahead
)

// ask asks the reference whether now can be.
func (g *guard) ask(ctx context.Context, now time.Time) opinion {
	if g.reference == nil {
		return none
	}
	ctx, cancel := context.WithTimeout(ctx, referenceTimeout)
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
