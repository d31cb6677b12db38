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

func pauseFiring(t *testing.T, s *sqlite.Store) timer.Pause {
	t.Helper()
	p := timer.Pause{Since: time.Now().UTC(), By: "ops"}
	if err := s.PauseFiring(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return p
}

func resumeFiring(t *testing.T, s *sqlite.Store) {
	t.Helper()
	if err := s.ResumeFiring(t.Context()); err != nil {
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
		pause := pauseFiring(t, s)
		p.Refresh()
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(fired) != 0 || p.Status().Paused != pause || p.Status().Overdue != 0 {
			t.Errorf("paused: %d fired, %+v", len(fired), p.Status())
		}
		resumeFiring(t, s)
		p.Refresh()
		for range 10 {
			e := <-fired
			if at := time.Since(began); at != time.Hour || e.Lateness() != began.Add(time.Hour).Sub(e.DueAt) {
				t.Errorf("%s fired after %v, %v late", e.Key, at, e.Lateness())
			}
		}
		synctest.Wait()
		if p.Status().Paused.Paused() {
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
		pauseFiring(t, s)
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
		resumeFiring(t, s)
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
		pauseFiring(t, s)
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
		pauseFiring(t, s)
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
		p, fired := poll(t, down, realClock, poller.Options{Paused: down.Firing})
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
		_, _ = poll(t, s, realClock, poller.Options{Paused: func(ctx context.Context) (timer.Pause, error) {
			reads.Add(1)
			return s.Firing(ctx)
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
