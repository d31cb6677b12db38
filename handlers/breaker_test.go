package handlers

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/internal/retry"
)

func TestBreakerLetsAllThroughWhileClosed(t *testing.T) {
	t.Parallel()
	b := newBreaker()
	for range 3 {
		if !b.acquire(t.Context()) {
			t.Fatal("open though nothing failed")
		}
	}
}

func TestBreakerLetsOneTryAfterEachPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, began := newBreaker(), time.Now()
		b.failure()
		b.failure() // fails together with the first: one pause, not two
		tried := make(chan time.Duration, 100)
		for range 100 {
			go func() {
				if b.acquire(t.Context()) {
					tried <- time.Since(began)
				}
			}()
		}
		var at time.Duration
		for _, pause := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond} {
			at += pause
			if got := <-tried; got != at {
				t.Fatalf("one tried after %v, want %v", got, at)
			}
			synctest.Wait()
			if len(tried) > 0 {
				t.Fatalf("%d more tried in the same pause", len(tried))
			}
			b.failure()
		}
		b.success()
		synctest.Wait()
		if len(tried) != 97 {
			t.Errorf("%d of 97 went on when the store was back", len(tried))
		}
		if !b.acquire(t.Context()) {
			t.Error("open after the store was back")
		}
	})
}

func TestBreakerEndsWithTheStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker()
		b.failure()
		stop, cancel := context.WithCancel(t.Context())
		cancel()
		if b.acquire(stop) {
			t.Error("went on after the stop")
		}
		b.success()
	})
}

func TestBreakerPauseIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker()
		wait := func() time.Duration {
			began := time.Now()
			b.failure()
			if !b.acquire(t.Context()) {
				t.Fatal("not let through")
			}
			return time.Since(began)
		}
		first, last := wait(), time.Duration(0)
		for range 20 {
			last = wait()
		}
		if first != retry.Intake.First || last != retry.Intake.Longest {
			t.Errorf("pauses from %v to %v, want %v to %v", first, last, retry.Intake.First, retry.Intake.Longest)
		}
		b.success()
		if again := wait(); again != first {
			t.Errorf("pause is %v after the store was back", again)
		}
	})
}
