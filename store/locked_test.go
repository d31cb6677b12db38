package store_test

import (
	"context"
	"errors"
	"slices"
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
	onSlow(t, func(s *slowStore) {
		s.before = func(_ context.Context, calls []timer.ServiceCallID) error {
			if slices.Contains(calls, "locked") {
				return timer.ErrLocked
			}
			return nil
		}
		for _, call := range []timer.ServiceCallID{"first", "a", "locked", "b"} {
			s.running.Go(func() {
				_, err := s.batch.Schedule(s.Context(), time.Now(), command(call, 1))
				if failed := errors.Is(err, timer.ErrLocked); failed != (call == "locked") {
					s.Errorf("%s: %v", call, err)
				}
			})
			synctest.Wait()
		}
	})
}

// TestFewLockedCommandsWaitAtOnce has many that wait for locks, for as long as a commit
// takes, and one that needs a connection too.
func TestFewLockedCommandsWaitAtOnce(t *testing.T) {
	onSlow(t, func(s *slowStore) {
		var at, most atomic.Int64
		s.before = func(context.Context, []timer.ServiceCallID) error {
			defer at.Add(-1)
			most.Store(max(most.Load(), at.Add(1)))
			time.Sleep(commitTime)
			return timer.ErrLocked
		}
		s.writer = make(chan struct{}, 100) // several at once, as in a server
		for i := range 20 {
			schedule := s.batch.Schedule
			if i%2 == 0 {
				schedule = store.Alone{Batch: s.batch}.Schedule
			}
			s.running.Go(func() {
				if _, err := schedule(s.Context(), time.Now(), command("locked", 1)); !errors.Is(err, timer.ErrLocked) {
					s.Error(err)
				}
			})
		}
		s.running.Wait()
		if n := most.Load(); n > 3 {
			s.Errorf("%d transactions at once, want one that is shared and two that are not", n)
		}
		ctx, cancel := context.WithCancel(s.Context())
		for range 3 {
			s.running.Go(func() {
				_, _ = store.Alone{Batch: s.batch}.Schedule(ctx, time.Now(), command("locked", 1))
			})
		}
		synctest.Wait()
		cancel()
	})
}
