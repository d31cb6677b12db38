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
)

// rightTime is that of the bubble, which is never set.
func rightTime(context.Context) (time.Time, error) { return time.Now(), nil }

// TestShortJumpWithinALongInterval has a timer wake the poller long before the
// planned poll, when the clock is wrong by less than the time to that.
func TestShortJumpWithinALongInterval(t *testing.T) {
	inBubble(t, func(b *bench) {
		p := b.poll(poller.Options{Interval: time.Hour, Reference: rightTime})
		synctest.Wait()
		b.schedule("1", 20*time.Minute)
		b.set(30 * time.Minute)
		p.Sooner(b.began.Add(20 * time.Minute))
		time.AfterFunc(10*time.Minute, func() { b.set(0) })
		b.fires(20 * time.Minute)
	})
}

// TestStartWaitsForAnAnswerOnlyShortly starts with overdue timers.
func TestStartWaitsForAnAnswerOnlyShortly(t *testing.T) {
	silent := func(context.Context) (time.Time, error) { return time.Time{}, errors.New("no answer") }
	for name, c := range map[string]struct {
		reference func(context.Context) (time.Time, error)
		after     time.Duration
	}{
		"not at all without a reference": {nil, 0},
		"five seconds if it is silent":   {silent, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.schedule("overdue", -time.Hour)
				p := b.poll(poller.Options{Reference: c.reference})
				b.fires(c.after)
				if s := p.Status(); s.Clock || s.Jumps != 0 {
					b.Errorf("no answer is no jump: %+v", s)
				}
			})
		})
	}
}

// TestClockThatJumpsDuringAPoll sets the clock wrong between the poll at the
// store and the transaction that fires.
func TestClockThatJumpsDuringAPoll(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.schedule("now", 0)
		b.schedule("in an hour", time.Hour)
		polls := 0
		b.decide = func(op string) fault.Kind {
			if polls++; op == "next_due" && polls == 1 {
				b.set(3 * time.Hour)
			}
			return fault.None
		}
		time.AfterFunc(time.Minute, func() { b.set(0) })
		b.poll(poller.Options{Reference: rightTime})
		<-b.fired
		if at := time.Since(b.began); at < time.Minute || at > time.Minute+time.Second {
			b.Errorf("fired after %v, want it when the clock is right", at)
		}
		b.fires(time.Hour)
	})
}

// TestClockThatIsSetBackDuringAPoll sets a clock right that was ahead, between
// the poll at the store and the sleep: the sleep is no longer for it.
func TestClockThatIsSetBackDuringAPoll(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.set(3 * time.Hour)
		b.decide = func(op string) fault.Kind {
			if op == "next_due" {
				b.set(0)
			}
			return fault.None
		}
		b.poll(poller.Options{})
		synctest.Wait()
		b.schedule("1", time.Minute) // by another instance: the poller is not woken
		b.fires(time.Minute)
	})
}

// TestClockThatIsBehindIsReported has the machine stand still for two hours, with its clock and
// with what measures elapsed time. Timers fire by the clock meanwhile.
func TestClockThatIsBehindIsReported(t *testing.T) {
	inBubble(t, func(b *bench) {
		var still atomic.Int64
		p := b.poll(poller.Options{Reference: func(context.Context) (time.Time, error) { return time.Now().Add(time.Duration(still.Load())), nil }})
		reported := func(want bool) {
			b.Helper()
			b.after(2 * time.Minute)
			if got := p.Status().Behind; got != want {
				b.Errorf("behind by %v: reported %v", time.Duration(still.Load()), got)
			}
		}
		reported(false)
		still.Store(int64(2 * time.Hour))
		reported(true)
		b.schedule("due", time.Since(b.began))
		p.Sooner(time.Now())
		<-b.fired
		still.Store(int64(time.Minute))
		reported(false)
	})
}

// TestClockThatIsSetBackSkipsNoTenantForLonger has it set back after the database refused to mark a
// timer.
func TestClockThatIsSetBackSkipsNoTenantForLonger(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.due("refused", 1, -2*time.Hour, 0)
		_, err := b.store.DB().ExecContext(b.Context(), `CREATE TRIGGER host BEFORE UPDATE OF state ON timer_schedules BEGIN SELECT RAISE(ABORT, 'not these'); END`)
		must(b, err)
		b.poll(poller.Options{})
		b.after(time.Second)
		_, err = b.store.DB().ExecContext(b.Context(), `DROP TRIGGER host`)
		must(b, err)
		b.set(-time.Hour)
		if n := b.after(11 * time.Second); n != 1 {
			b.Errorf("%d of 1 fired within 11 s after the cure", n)
		}
	})
}
