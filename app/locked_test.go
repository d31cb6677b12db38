package app_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/timer"
)

// TestCallsWaitForATransactionOfTheHost that has locked the same timers, for longer than a command
// from a broker waits in one try, and end with their context.
func TestCallsWaitForATransactionOfTheHost(t *testing.T) {
	t.Parallel()
	_, timers := onPostgres(t, pgtest.URL(t), func(_ *postgres.Store, timers *app.Timers) {
		timers.OnDue("", func(context.Context, timer.DueTimeReached) error { return nil }, app.OnDueOptions{})
	})
	must(t, timers.Schedule(t.Context(), in("order-1", time.Hour), in("order-2", time.Hour)))
	for what, call := range map[string]func(ctx context.Context) error{
		"Schedule": func(ctx context.Context) error { return timers.Schedule(ctx, in("order-1", 2*time.Hour)) },
		"Cancel": func(ctx context.Context) error {
			return timers.Cancel(ctx, timer.Key{TenantID: "acme", ServiceCallID: "order-1"})
		},
		"CancelWhere": func(ctx context.Context) error {
			_, err := timers.CancelWhere(ctx, "acme", timer.Selection{Prefix: "order-2"})
			return err
		},
	} {
		locked, end, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- timers.Tx(t.Context(), func(tx *sql.Tx) error {
				err := timers.ScheduleTx(t.Context(), tx, in("order-1", time.Hour), in("order-2", time.Hour))
				close(locked)
				<-end
				return err
			})
		}()
		<-locked
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		if err := call(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s with a deadline before the end of the transaction: %v", what, err)
		}
		cancel()
		time.AfterFunc(1500*time.Millisecond, func() { close(end) })
		if err := call(t.Context()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		must(t, <-ended)
	}
}
