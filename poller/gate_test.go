package poller

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

func newGate() *gate { return &gate{wake: make(chan struct{}, 1)} }

var clock = timer.ClockFunc(time.Now)

func TestGateSleepsUntilItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, began := newGate(), time.Now()
		g.open()
		if !g.sleep(t.Context(), clock, time.Time{}, began.Add(time.Hour), time.Hour) {
			t.Fatal("woke as if stopped")
		}
		if slept := time.Since(began); slept != time.Hour {
			t.Errorf("slept %v, want 1h", slept)
		}
	})
}

func TestGateWakesForSooner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, began := newGate(), time.Now()
		g.open()
		time.AfterFunc(time.Second, func() { g.sooner(began.Add(time.Minute)) })
		time.AfterFunc(2*time.Second, func() { g.sooner(began.Add(2 * time.Minute)) })
		time.AfterFunc(3*time.Second, func() { g.sooner(began.Add(30 * time.Second)) })
		g.sleep(t.Context(), clock, time.Time{}, began.Add(time.Hour), time.Hour)
		if slept := time.Since(began); slept != 30*time.Second {
			t.Errorf("slept %v, want 30s: the soonest that was announced", slept)
		}
	})
}

func TestGateDoesNotWakeTooEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		for i, announced := range []time.Duration{-time.Second, time.Second} {
			began := time.Now()
			g.open()
			g.sooner(began.Add(announced))
			time.AfterFunc(time.Second, func() { g.sooner(began) })
			g.sleep(t.Context(), clock, began.Add(time.Minute), began.Add(time.Hour), time.Hour)
			if slept := time.Since(began); slept != time.Minute {
				t.Errorf("%d: slept %v, want 1m", i, slept)
			}
		}
	})
}

func TestGateKeepsWhatIsAnnouncedBeforeSleep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, began := newGate(), time.Now()
		g.open()
		g.sooner(began.Add(time.Second)) // committed while the poller reads
		g.sleep(t.Context(), clock, time.Time{}, began.Add(time.Hour), time.Hour)
		if slept := time.Since(began); slept != time.Second {
			t.Errorf("slept %v, want 1s", slept)
		}
		g.open()
		g.sleep(t.Context(), clock, time.Time{}, began.Add(time.Hour), time.Hour)
		if slept := time.Since(began); slept != time.Hour {
			t.Errorf("woke after %v for what was announced before open, want 1h", slept)
		}
	})
}

func TestGateStopsWithContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if g.sleep(ctx, clock, time.Time{}, time.Now().Add(time.Hour), time.Hour) {
			t.Error("sleep returned true after its context ended")
		}
	})
}

// TestGateKeepsItsLimitWhenTheClockStepsBack announces a due time that is later
// than the end of the sleep, but sooner by the clock, which was set back
// meanwhile.
func TestGateKeepsItsLimitWhenTheClockStepsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		var behind atomic.Int64
		clock := timer.ClockFunc(func() time.Time { return time.Now().Add(-time.Duration(behind.Load())) })
		g.open()
		began := time.Now()
		go func() {
			time.Sleep(time.Second)
			behind.Store(int64(time.Hour))
			g.sooner(clock.Now().Add(30 * time.Minute))
		}()
		if !g.sleep(t.Context(), clock, time.Time{}, clock.Now().Add(5*time.Second), 5*time.Second) {
			t.Fatal("ended with the context")
		}
		if slept := time.Since(began); slept != 5*time.Second {
			t.Errorf("slept for %v, want 5s", slept)
		}
	})
}
