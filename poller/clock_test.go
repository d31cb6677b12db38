package poller_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/poller"
	"github.com/event-service-agent/timer-service/timer"
)

// A wrongClock is a clock that a test sets.
type wrongClock struct{ by atomic.Int64 }

func (c *wrongClock) set(by time.Duration) { c.by.Store(int64(by)) }

func (c *wrongClock) Now() time.Time { return time.Now().Add(time.Duration(c.by.Load())) }

// rightTime is that of the bubble, which is never set.
func rightTime(context.Context) (time.Time, error) { return time.Now(), nil }

func noTime(context.Context) (time.Time, error) { return time.Time{}, errors.New("no answer") }

// elapsed is what a machine has beside its clock.
func elapsed() func() time.Duration {
	began := time.Now()
	return func() time.Duration { return time.Since(began) }
}

// firesAfter waits for the next timer to fire, and checks when that is.
func firesAfter(t *testing.T, began time.Time, fired <-chan timer.DueTimeReached, earliest, latest time.Duration) {
	t.Helper()
	e := <-fired
	if at := time.Since(began); at < earliest || at > latest {
		t.Errorf("%s fired after %v, want %v to %v", e.Key, at, earliest, latest)
	}
}

func TestClockThatJumpsForwardHoldsFiring(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, began, clock := open(t), time.Now(), new(wrongClock)
		schedule(t, s, "1", began.Add(2*time.Hour))
		time.AfterFunc(time.Minute, func() { clock.set(3 * time.Hour) })
		time.AfterFunc(2*time.Minute, func() { clock.set(0) })
		_, fired := poll(t, s, clock, poller.Options{Reference: rightTime, Elapsed: elapsed()})
		firesAfter(t, began, fired, 2*time.Hour, 2*time.Hour)
	})
}

// TestShortJumpWithinALongInterval has a timer wake the poller long before the
// planned poll, when the clock is wrong by less than the time to that.
func TestShortJumpWithinALongInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, began, clock := open(t), time.Now(), new(wrongClock)
		p, fired := poll(t, s, clock, poller.Options{Interval: time.Hour, Reference: rightTime, Elapsed: elapsed()})
		synctest.Wait()
		schedule(t, s, "in 20 minutes", began.Add(20*time.Minute))
		clock.set(30 * time.Minute)
		p.Sooner(began.Add(20 * time.Minute))
		time.AfterFunc(10*time.Minute, func() { clock.set(0) })
		firesAfter(t, began, fired, 20*time.Minute, 20*time.Minute)
	})
}

func TestClockThatIsWrongAtTheStartHoldsFiring(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, began, clock := open(t), time.Now(), new(wrongClock)
		schedule(t, s, "1", began.Add(2*time.Hour))
		clock.set(3 * time.Hour)
		time.AfterFunc(time.Minute, func() { clock.set(0) })
		_, fired := poll(t, s, clock, poller.Options{Reference: rightTime, Elapsed: elapsed()})
		firesAfter(t, began, fired, 2*time.Hour, 2*time.Hour)
	})
}

// TestStartWaitsForAnAnswerOnlyShortly starts with what is overdue.
func TestStartWaitsForAnAnswerOnlyShortly(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		reference func(context.Context) (time.Time, error)
		after     time.Duration
	}{
		{"not at all without a reference", nil, 0},
		{"not at all if the reference agrees", rightTime, 0},
		{"not at all if it has no clock", func(context.Context) (time.Time, error) { return time.Time{}, errors.ErrUnsupported }, 0},
		{"five seconds if it is silent", noTime, 5 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, began := open(t), time.Now()
				schedule(t, s, "overdue", began.Add(-time.Hour))
				_, fired := poll(t, s, realClock, poller.Options{Reference: tt.reference, Elapsed: elapsed()})
				firesAfter(t, began, fired, tt.after, tt.after)
			})
		})
	}
}

// TestClockThatJumpsDuringAPoll sets the clock wrong between the poll at the
// store and the transaction that fires.
func TestClockThatJumpsDuringAPoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, began, clock := open(t), time.Now(), new(wrongClock)
		schedule(t, s, "now", began)
		schedule(t, s, "in an hour", began.Add(time.Hour))
		polls := 0
		hooked := &fault.Store{Full: s, Decide: func(op string) fault.Kind {
			if polls++; op == "next_due" && polls == 1 {
				clock.set(3 * time.Hour)
			}
			return fault.None
		}}
		time.AfterFunc(time.Minute, func() { clock.set(0) })
		_, fired := poll(t, hooked, clock, poller.Options{Reference: rightTime, Elapsed: elapsed()})
		firesAfter(t, began, fired, time.Minute, time.Minute+time.Second)
		firesAfter(t, began, fired, time.Hour, time.Hour)
	})
}

// TestClockThatIsSetBackDuringAPoll sets a clock right that was ahead, between
// the poll at the store and the sleep: the sleep is no longer for it.
func TestClockThatIsSetBackDuringAPoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, began, clock := open(t), time.Now(), new(wrongClock)
		clock.set(3 * time.Hour)
		hooked := &fault.Store{Full: s, Decide: func(op string) fault.Kind {
			if op == "next_due" {
				clock.set(0)
			}
			return fault.None
		}}
		_, fired := poll(t, hooked, clock, poller.Options{Elapsed: elapsed()})
		synctest.Wait()
		schedule(t, s, "1", began.Add(time.Minute)) // by another instance: the poller is not woken
		firesAfter(t, began, fired, time.Minute, time.Minute)
	})
}

// TestSuspendAndResume has the machine sleep for a night: elapsed stands still,
// the clock and the reference do not.
func TestSuspendAndResume(t *testing.T) {
	t.Parallel()
	const night = 8 * time.Hour
	for _, tt := range []struct {
		name  string
		known bool          // there is a reference
		late  time.Duration // the most that firing may take after the next poll
	}{
		{"with a reference at once", true, 0},
		{"without one after five seconds", false, 5 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, began, clock := open(t), time.Now(), new(wrongClock)
				schedule(t, s, "in the night", began.Add(4*time.Hour))
				schedule(t, s, "in the morning", began.Add(night+time.Hour))
				opt := poller.Options{Interval: time.Minute, Elapsed: elapsed()} // the bubble's time is what elapsed
				if tt.known {
					opt.Reference = func(context.Context) (time.Time, error) { return clock.Now(), nil }
				}
				_, fired := poll(t, s, clock, opt)
				time.Sleep(30 * time.Second)
				clock.set(night)
				firesAfter(t, began, fired, time.Minute, time.Minute+tt.late)
				firesAfter(t, began, fired, time.Hour, time.Hour)
			})
		})
	}
}

func TestClockThatStepsBackFiresOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, began, clock := open(t), time.Now(), new(wrongClock)
		schedule(t, s, "1", began.Add(time.Minute))
		time.AfterFunc(2*time.Minute, func() { clock.set(-time.Hour) })
		_, fired := poll(t, s, clock, poller.Options{Elapsed: elapsed()})
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if len(fired) != 1 {
			t.Errorf("fired %d times, want once", len(fired))
		}
	})
}

// TestClockThatIsBehindIsReported has the machine stand still for two hours, with its clock and
// with what measures elapsed time. Timers fire by the clock meanwhile.
func TestClockThatIsBehindIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, clock := open(t), timer.ClockFunc(time.Now)
		var still atomic.Int64
		p, fired := poll(t, s, clock, poller.Options{Reference: func(context.Context) (time.Time, error) {
			return time.Now().Add(time.Duration(still.Load())), nil
		}})
		reported := func(want bool) {
			t.Helper()
			time.Sleep(2 * time.Minute)
			if got := p.Status().Behind; got != want {
				t.Errorf("behind by %v: reported %v", time.Duration(still.Load()), got)
			}
		}
		reported(false)
		still.Store(int64(2 * time.Hour))
		reported(true)
		schedule(t, s, "due", time.Now())
		p.Sooner(time.Now())
		<-fired
		still.Store(int64(time.Minute))
		reported(false)
	})
}
