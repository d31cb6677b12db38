// Package comparison has the tasks of docs/comparison.md, which counts their lines.
package comparison

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// New is the set-up: it returns timers in the program's database, for the program to run.
func New(ctx context.Context, db *sql.DB, log *slog.Logger) (*app.App, error) {
	if err := sqlite.Migrate(ctx, db); err != nil {
		return nil, err
	}
	a, err := app.New(sqlite.New(db, sqlite.Options{}), nil, log, app.Options{})
	if err != nil {
		return nil, err
	}
	a.Timers().OnDue("", remind, app.OnDueOptions{})
	return a, nil
}

func schedule(ctx context.Context, timers *app.Timers, after time.Duration) error {
	return timers.Schedule(ctx, client.Timer{TenantID: "acme", ServiceCallID: "order-42.pay", After: after})
}

func cancel(ctx context.Context, timers *app.Timers) error {
	return timers.Cancel(ctx, timer.Key{TenantID: "acme", ServiceCallID: "order-42.pay"})
}

func cancelOrder(ctx context.Context, timers *app.Timers) error {
	_, err := timers.CancelWhere(ctx, "acme", timer.Selection{Prefix: "order-42."})
	return err
}

func remind(_ context.Context, e timer.DueTimeReached) error {
	fmt.Println("due:", e.ServiceCallID)
	if strings.HasSuffix(string(e.ServiceCallID), ".later") {
		return timer.Later(time.Hour)
	}
	return nil
}
