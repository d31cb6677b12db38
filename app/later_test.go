package app_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/timer"
)

// TestAnEventThatItsHandlerWantsLaterIsNoFailure has both kinds of handlers put an event off. The
// process ends meanwhile, and the next one starts early.
func TestAnEventThatItsHandlerWantsLaterIsNoFailure(t *testing.T) {
	inBubble(t, func(b *bench) {
		_, err := b.store.DB().ExecContext(b.Context(), `CREATE TABLE notes (text TEXT) STRICT`)
		must(b, err)
		began := time.Now()
		var mu sync.Mutex
		calls := make(map[timer.ServiceCallID][]time.Duration)
		late := func(e timer.DueTimeReached) error {
			mu.Lock()
			defer mu.Unlock()
			calls[e.ServiceCallID] = append(calls[e.ServiceCallID], time.Since(began).Round(time.Second))
			if len(calls[e.ServiceCallID]) == 1 {
				return fmt.Errorf("the shop is closed: %w", timer.Later(10*time.Minute))
			}
			return nil
		}
		counters := new(app.Counters)
		handlers := func(timers *app.Timers) {
			timers.OnDue("a-", func(_ context.Context, e timer.DueTimeReached) error { return late(e) }, app.OnDueOptions{Attempts: 1})
			timers.OnDueTx("b-", func(ctx context.Context, tx *sql.Tx, e timer.DueTimeReached) error {
				_, err := tx.ExecContext(ctx, `INSERT INTO notes (text) VALUES ('seen')`)
				must(b, err)
				return late(e)
			}, app.OnDueOptions{Attempts: 1})
		}
		opt := app.Options{PollingInterval: time.Hour, Counters: counters}
		a, stop := b.serve(opt, handlers)
		must(b, a.Timers().Schedule(b.Context(), in("a-1", time.Second), in("b-1", time.Second)))
		b.wait(9 * time.Minute)
		for _, c := range a.Checks(b.Context()) {
			if c.Red {
				b.Errorf("%+v", c)
			}
		}
		if s := b.stats(); s.Outbox != 2 || s.Parked != 0 || !s.Oldest.IsZero() {
			b.Errorf("%+v: want two events that are not old", s)
		}
		stop()
		_, _ = b.serve(opt, handlers)
		b.wait(2 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		for call, at := range calls {
			if len(at) != 2 || at[1]-at[0] != 10*time.Minute {
				b.Errorf("%s was handled at %v", call, at)
			}
		}
		var seen int
		must(b, b.store.DB().QueryRowContext(b.Context(), `SELECT count(*) FROM notes`).Scan(&seen))
		if s := b.stats(); s.Outbox != 0 || len(calls) != 2 || seen != 1 {
			b.Errorf("%+v, calls %v, %d notes", s, calls, seen)
		}
		for prefix, n := range counters.HandlerFailures() {
			if n != 0 {
				b.Errorf("%d failures of %q", n, prefix)
			}
		}
	})
}
