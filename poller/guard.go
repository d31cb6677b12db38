package poller

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// JumpLimit is by how much a clock may be ahead or behind without being suspected.
const JumpLimit = time.Minute

const (
	waitLimit        = 5 * time.Second // longest wait while no reference contradicts the clock
	recheck          = time.Second     // between two requests to the reference
	referenceTimeout = time.Second     // longest wait for the reference
	compareInterval  = time.Minute     // between two comparisons of a clock that is believed
)

// A guard stops firing when the clock jumps forward. A wrong clock fires timers
// hours early, and Reached is final.
//
// The clock has jumped if since the last poll, however long ago that was, it advanced by
// more than the elapsed time and JumpLimit. A clock that was wrong and has been corrected
// looks the same, and so does a machine that wakes from suspend. The guard therefore asks
// a reference. Timers fire again when the reference agrees, or when no reference has
// contradicted the clock for waitLimit. After a contradiction the guard waits until the
// two agree: a reference that stops answering has not agreed. A clock that steps back
// needs no guard, since a timer that is Reached does not fire again.
//
// At the first poll there is no earlier time to compare with, so the guard asks the
// reference at once. Without a reference it believes the clock.
//
// A clock that is behind makes timers late. The clocks of a virtual machine that was paused
// stood still together, so the guard compares the clock with the reference once a minute. It
// reports a clock that is behind, and timers go on to fire by it.
type guard struct {
	log       *slog.Logger
	reference func(context.Context) (time.Time, error) // nil if there is none
	elapsed   func() time.Duration                     // since any fixed moment, by a clock that is never set

	base         time.Time     // the clock when it was believed last; zero before the first poll
	baseElapsed  time.Duration // elapsed at the time of base
	waiting      bool          // no timer fires
	since        time.Duration // elapsed when the wait began
	contradicted bool          // the reference disagreed during the wait
	compared     time.Duration // elapsed when the reference was asked last
	behind       bool          // the reference was ahead then
}

// gained returns by how much the clock is ahead of the elapsed time since it was believed last.
func (g *guard) gained(now time.Time) time.Duration {
	if g.base.IsZero() {
		return 0
	}
	return now.Sub(g.base) - (g.elapsed() - g.baseElapsed)
}

// jumped reports whether the clock jumped since it was believed last.
func (g *guard) jumped(now time.Time) bool { return g.gained(now) > JumpLimit }

// doubts reports whether the guard has a reason to assume that the clock is wrong. A
// reference that does not answer at the first poll is not a reason.
func (g *guard) doubts() bool { return g.waiting && (g.contradicted || !g.base.IsZero()) }

// wait returns how long to wait before asking again; zero if now can be believed.
func (g *guard) wait(ctx context.Context, now time.Time) time.Duration {
	first := g.base.IsZero()
	if !first && !g.jumped(now) {
		if g.elapsed()-g.compared >= compareInterval || g.gained(now) < -JumpLimit {
			g.ask(ctx, now)
		}
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

// A clockOpinion is the answer of the reference about the clock.
type clockOpinion int

const (
	silent    clockOpinion = iota // no answer now
	none                          // no answer, ever
	agrees                        // the clock is not ahead
	disagrees                     // the clock is ahead
)

// ask asks the reference whether now is right.
func (g *guard) ask(ctx context.Context, now time.Time) clockOpinion {
	if g.reference == nil {
		return none
	}
	ctx, cancel := context.WithTimeout(ctx, referenceTimeout)
	defer cancel()
	g.compared = g.elapsed()
	t, err := g.reference(ctx)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return none
	case err != nil:
		return silent
	}
	was := g.behind
	if g.behind = t.Sub(now) > JumpLimit; g.behind && !was {
		g.log.ErrorContext(ctx, "clock is behind the reference, timers fire late", "now", now, "behind", t.Sub(now))
	}
	if now.Sub(t) <= JumpLimit {
		return agrees
	}
	return disagrees
}
