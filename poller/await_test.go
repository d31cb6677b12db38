package poller_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/poller"
)

// TestNothingFiresBeforeItMay has timers due, one stored before and one meanwhile.
func TestNothingFiresBeforeItMay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, began, may := open(t), time.Now(), make(chan struct{})
		schedule(t, s, "before", began)
		var longest time.Duration
		p, fired := poll(t, s, realClock, poller.Options{
			Await: func(ctx context.Context) bool {
				select {
				case <-may:
					return true
				case <-ctx.Done():
					return false
				}
			},
			Polled: func(took time.Duration, _ error) { longest = max(longest, took) },
		})
		time.Sleep(time.Hour)
		schedule(t, s, "meanwhile", time.Now().Add(time.Second))
		p.Sooner(time.Now().Add(time.Second))
		synctest.Wait()
		if len(fired) != 0 {
			t.Errorf("%d fired before they might", len(fired))
		}
		close(may)
		synctest.Wait()
		if len(fired) != 1 {
			t.Errorf("%d fired at once, want 1", len(fired))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if len(fired) != 2 {
			t.Errorf("%d fired a second later, want 2", len(fired))
		}
		if longest > time.Minute {
			t.Errorf("a poll took %v: the wait counts", longest)
		}
	})
}

// TestStopsWhileNothingMayFire: the poller ends with its context.
func TestStopsWhileNothingMayFire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		poll(t, open(t), realClock, poller.Options{Await: func(ctx context.Context) bool { <-ctx.Done(); return false }})
		synctest.Wait()
	})
}
