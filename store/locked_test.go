package store_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// TestLockedCommandFailsAlone has a commit of several that fails as long as another
// transaction holds a lock for one of them.
func TestLockedCommandFailsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := newSlow(func(_ context.Context, calls []timer.ServiceCallID) error {
			if slices.Contains(calls, "locked") {
				return timer.ErrLocked
			}
			return nil
		})
		b := store.NewBatch(inner, store.BatchOptions{})
		var running sync.WaitGroup
		for _, call := range []timer.ServiceCallID{"first", "a", "locked", "b"} {
			running.Go(func() {
				_, err := b.Schedule(t.Context(), time.Now(), command(call, 1))
				if failed := errors.Is(err, timer.ErrLocked); failed != (call == "locked") {
					t.Errorf("%s: %v", call, err)
				}
			})
			synctest.Wait()
		}
		running.Wait()
	})
}

// TestFewLockedCommandsWaitAtOnce has many that wait for locks, for as long as a commit
// takes, and one that needs a connection too.
func TestFewLockedCommandsWaitAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var at, most atomic.Int64
		inner := newSlow(func(context.Context, []timer.ServiceCallID) error {
			defer at.Add(-1)
			most.Store(max(most.Load(), at.Add(1)))
			time.Sleep(commitTime)
			return timer.ErrLocked
		})
		inner.writer = make(chan struct{}, 100) // several at once, as in a server
		b := store.NewBatch(inner, store.BatchOptions{})
		var running sync.WaitGroup
		for i := range 20 {
			schedule := b.Schedule
			if i%2 == 0 {
				schedule = store.Alone{Batch: b}.Schedule
			}
			running.Go(func() {
				if _, err := schedule(t.Context(), time.Now(), command("locked", 1)); !errors.Is(err, timer.ErrLocked) {
					t.Error(err)
				}
			})
		}
		running.Wait()
		if n := most.Load(); n > 3 {
			t.Errorf("%d transactions at once, want one that is shared and two that are not", n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		for range 3 {
			running.Go(func() {
				_, _ = store.Alone{Batch: b}.Schedule(ctx, time.Now(), command("locked", 1))
			})
		}
		synctest.Wait()
		cancel()
		running.Wait()
	})
}
