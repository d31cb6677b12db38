package poller_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/poller"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

func pauseFiring(t *testing.T, s *sqlite.Store, tenant timer.TenantID, until time.Time) timer.Pause {
	t.Helper()
	p := timer.Pause{TenantID: tenant, Since: time.Now().UTC(), Until: until, By: "ops"}
	if err := s.PauseFiring(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return p
}

func resumeFiring(t *testing.T, s *sqlite.Store, tenant timer.TenantID) {
	t.Helper()
	if err := s.ResumeFiring(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
}

// TestNothingFiresWhilePaused, and all of it when firing is resumed, at once where the
// poller is notified.
func TestNothingFiresWhilePaused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, began := open(t), time.Now()
		p, fired := poll(t, s, realClock, poller.Options{Interval: time.Hour, Paused: s.Firing})
		synctest.Wait()
		for i := range 10 {
			schedule(t, s, fmt.Sprint(i), began.Add(time.Duration(i+1)*time.Minute))
		}
		pause := pauseFiring(t, s, "", time.Time{})
		p.Refresh()
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(fired) != 0 || p.Status().Paused[""] != pause || p.Status().Overdue != 0 {
			t.Errorf("paused: %d fired, %+v", len(fired), p.Status())
		}
		resumeFiring(t, s, "")
		p.Refresh()
		for range 10 {
			e := <-fired
			if at := time.Since(began); at != time.Hour || e.Lateness() != began.Add(time.Hour).Sub(e.DueAt) {
				t.Errorf("%s fired after %v, %v late", e.Key, at, e.Lateness())
			}
		}
		synctest.Wait()
		if len(p.Status().Paused) > 0 {
			t.Errorf("resumed: %+v", p.Status())
		}
	})
}

// TestAPauseOfAnotherInstanceHoldsWithinASecond, and ends within one.
func TestAPauseOfAnotherInstanceHoldsWithinASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, began := open(t), time.Now()
		for i := range 1000 {
			schedule(t, s, fmt.Sprint(i), began.Add(time.Duration(i)*50*time.Millisecond))
		}
		p, fired := poll(t, s, realClock, poller.Options{Paused: s.Firing})
		time.Sleep(10 * time.Second)
		pauseFiring(t, s, "", time.Time{})
		time.Sleep(time.Second)
		synctest.Wait()
		before := len(fired)
		if before < 200 || before > 220 {
			t.Errorf("%d fired until it was paused", before)
		}
		p.Sooner(time.Now()) // does not wake it
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(fired) != before {
			t.Errorf("%d fired while paused", len(fired)-before)
		}
		resumeFiring(t, s, "")
		time.Sleep(time.Second + time.Millisecond)
		synctest.Wait()
		if len(fired) != 1000 {
			t.Errorf("%d had fired a second after it was resumed", len(fired))
		}
	})
}

// TestAPauseWhileTheBrokerIsReadHolds: what was due before timers might fire waits.
func TestAPauseWhileTheBrokerIsReadHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		schedule(t, s, "1", time.Now())
		var awaited atomic.Bool
		_, fired := poll(t, s, realClock, poller.Options{Paused: s.Firing, Await: func(ctx context.Context) bool {
			if !awaited.Swap(true) {
				time.Sleep(5 * time.Second)
			}
			return ctx.Err() == nil
		}})
		synctest.Wait()
		pauseFiring(t, s, "", time.Time{})
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(fired) != 0 {
			t.Errorf("%d fired while paused", len(fired))
		}
	})
}

// TestAStartWhilePausedFiresNothing: a pause outlives the instance that was asked.
func TestAStartWhilePausedFiresNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		schedule(t, s, "1", time.Now())
		pauseFiring(t, s, "", time.Time{})
		_, fired := poll(t, s, realClock, poller.Options{Paused: s.Firing})
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(fired) != 0 {
			t.Errorf("%d fired while paused", len(fired))
		}
	})
}

// TestAPauseThatCanNotBeReadFiresNothing, and is a failed poll.
func TestAPauseThatCanNotBeReadFiresNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		schedule(t, s, "1", time.Now())
		var fails atomic.Bool
		fails.Store(true)
		down := &fault.Store{Full: s, Decide: func(op string) fault.Kind {
			if op == "firing" && fails.Load() {
				return fault.Before
			}
			return fault.None
		}}
		p, fired := poll(t, down, realClock, poller.Options{Paused: down.Timers().Firing})
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(fired) != 0 || !errors.Is(p.Status().Err, fault.ErrInjected) {
			t.Errorf("%d fired, %+v", len(fired), p.Status())
		}
		fails.Store(false)
		<-fired
	})
}

// TestAPauseIsReadSeldom counts the reads of a poller that fires all the time, and of
// one that has nothing to do.
func TestAPauseIsReadSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, began := open(t), time.Now()
		for i := range 1000 {
			schedule(t, s, fmt.Sprint(i), began.Add(time.Duration(i)*10*time.Millisecond))
		}
		var reads atomic.Int64
		_, _ = poll(t, s, realClock, poller.Options{Paused: func(ctx context.Context, now time.Time) (timer.Pauses, error) {
			reads.Add(1)
			return s.Firing(ctx, now)
		}})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := reads.Load(); n > 21 {
			t.Errorf("%d reads in 10 s of firing", n)
		}
		reads.Store(0)
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := reads.Load(); n > 721 {
			t.Errorf("%d reads in an idle hour", n)
		}
	})
}

// TestAPauseEndsAtItsTime, of all and of a tenant, without anybody who resumes.
func TestAPauseEndsAtItsTime(t *testing.T) {
	t.Parallel()
	for name, tenant := range map[string]timer.TenantID{"of all": "", "of a tenant": "acme"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, began := open(t), time.Now()
				due(t, s, "acme", 1, began.Add(time.Second), 0)
				until := began.Add(10*time.Minute + 123*time.Millisecond)
				pauseFiring(t, s, tenant, until)
				_, fired := poll(t, s, realClock, poller.Options{Interval: time.Hour, Paused: s.Firing})
				if e := <-fired; !e.ReachedAt.Equal(timer.RoundUp(until)) {
					t.Errorf("fired at %v, want %v", e.ReachedAt, until)
				}
			})
		})
	}
}

// TestAPausedTenantDelaysNobody has a tenant with far more due than a batch holds, beside
// one whose timers are due now and then, and the poller looks once a second beyond that.
// Resumed, it fires in the order of the due times.
func TestAPausedTenantDelaysNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, began := open(t), time.Now().Truncate(time.Millisecond)
		const paused, others = 300, 29
		due(t, s, "paused", paused, began, time.Millisecond)
		due(t, s, "other", others, began.Add(3*time.Millisecond), 710*time.Millisecond)
		var polls atomic.Int64
		pauseFiring(t, s, "paused", time.Time{})
		p, fired := poll(t, s, realClock, poller.Options{
			Interval: time.Hour, Batch: 20, Paused: s.Firing, Polled: func(time.Duration, error) { polls.Add(1) },
		})
		for range others {
			if e := <-fired; e.TenantID != "other" || e.Lateness() > 10*time.Millisecond {
				t.Errorf("%s fired %v late", e.Key, e.Lateness())
			}
		}
		synctest.Wait()
		before, at := polls.Load(), time.Now()
		if before > 100+3*others {
			t.Errorf("looked %d times for %d timers", before, others)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := polls.Load() - before; n > 61 || len(fired) > 0 {
			t.Errorf("looked %d times in a minute, %d fired", n, len(fired))
		}
		if cleared := p.Status().Cleared; cleared.Before(at) {
			t.Errorf("all else had fired at %v, want a second ago", cleared)
		}
		resumeFiring(t, s, "paused")
		p.Refresh()
		last := time.Time{}
		for i := range paused {
			e := <-fired
			if i%20 == 0 && e.DueAt.Before(last) { // a batch comes in any order
				t.Errorf("%s fired after one that was due at %v", e.Key, last)
			}
			if e.DueAt.After(last) {
				last = e.DueAt
			}
		}
	})
}

// TestAPauseOfATenantHoldsWithinASecond where another instance was asked, and ends within one.
func TestAPauseOfATenantHoldsWithinASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, began := open(t), time.Now()
		due(t, s, "acme", 400, began, 50*time.Millisecond)
		due(t, s, "other", 400, began, 50*time.Millisecond)
		_, fired := poll(t, s, realClock, poller.Options{Paused: s.Firing})
		time.Sleep(10 * time.Second)
		pauseFiring(t, s, "acme", time.Time{})
		time.Sleep(time.Minute)
		synctest.Wait()
		of := make(map[timer.TenantID]int)
		for range len(fired) {
			of[(<-fired).TenantID]++
		}
		if of["acme"] < 200 || of["acme"] > 220 || of["other"] != 400 {
			t.Errorf("fired: %v", of)
		}
		resumeFiring(t, s, "acme")
		time.Sleep(time.Second + time.Millisecond)
		synctest.Wait()
		if of["acme"]+len(fired) != 400 {
			t.Errorf("%d had fired a second after it was resumed", of["acme"]+len(fired))
		}
	})
}
