package main

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/fx"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// shop is a program on nothing but its database, with fx.
func shop(path string) fx.Option {
	return fx.Options(
		fx.Provide(
			func(lc fx.Lifecycle) (*sql.DB, error) { return openShop(lc, path) },   // your database
			func(db *sql.DB) app.Store { return sqlite.New(db, sqlite.Options{}) }, // the timers are in it
			newLog, // your *slog.Logger
		),
		app.Module(app.Options{}), // the timers
		app.ProvideHandler(func() app.Handler { return app.Handler{Prefix: "order-", HandleTx: expire} }), // what you do when they are due
	)
}

// book stores an order and its timer, or neither.
func book(ctx context.Context, timers *app.Timers, id string, after time.Duration) error {
	return timers.Tx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO orders (id, state) VALUES (?, 'booked')`, id); err != nil {
			return err
		}
		return timers.ScheduleTx(ctx, tx, client.Timer{TenantID: "acme", ServiceCallID: timer.ServiceCallID(id), After: after})
	})
}

// expire ends an order that was not paid in time, once.
func expire(ctx context.Context, tx *sql.Tx, e timer.DueTimeReached) error {
	_, err := tx.ExecContext(ctx, `UPDATE orders SET state = 'expired' WHERE id = ? AND state = 'booked'`, string(e.ServiceCallID))
	return err
}

// pay notes that an order was paid. Its timer fires no more.
func pay(ctx context.Context, timers *app.Timers, id string) error {
	return timers.Tx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `UPDATE orders SET state = 'paid' WHERE id = ? AND state = 'booked'`, id); err != nil {
			return err
		}
		err := timers.CancelTx(ctx, tx, timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(id)})
		if errors.Is(err, timer.ErrReached) {
			return errors.New("too late: the order has expired")
		}
		return err
	})
}

// run runs the timers without fx, until ctx is done.
func run(ctx context.Context, a *app.App) error {
	a.Timers().OnDueTx("order-", expire, app.OnDueOptions{})
	return a.Run(ctx)
}

// openShop opens the database of the shop, with its table and those of the timers.
func openShop(lc fx.Lifecycle, path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", sqlite.DSN(path))
	if err != nil {
		return nil, err
	}
	lc.Append(fx.StopHook(db.Close))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return db, migrate(ctx, db)
}

func migrate(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, state TEXT NOT NULL) STRICT`)
	return errors.Join(err, sqlite.Migrate(ctx, db))
}

func TestAnOrderExpiresAfterThreeHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(48 * time.Hour) // bubbles begin with the year 2000, before which nothing may be due

		db, err := sql.Open("sqlite", sqlite.DSN(filepath.Join(t.TempDir(), "shop.db")))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := migrate(t.Context(), db); err != nil {
			t.Fatal(err)
		}
		a, err := app.New(sqlite.New(db, sqlite.Options{}), nil, slog.New(slog.DiscardHandler), app.Options{})
		if err != nil {
			t.Fatal(err)
		}
		stop := goRun(t, func(ctx context.Context) error { return run(ctx, a) })
		defer stop()
		synctest.Wait()

		for _, id := range []string{"order-1", "order-2"} {
			if err := book(t.Context(), a.Timers(), id, 3*time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Hour)
		if err := pay(t.Context(), a.Timers(), "order-2"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		wantStates(t, db, "expired", "paid")
		if err := pay(t.Context(), a.Timers(), "order-1"); err == nil {
			t.Error("an order was paid that has expired")
		}
	})
}

// wantStates checks the states of all orders.
func wantStates(t *testing.T, db *sql.DB, want ...string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT state FROM orders ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for _, state := range want {
		var got string
		if !rows.Next() {
			t.Fatal("too few orders")
		}
		if err := rows.Scan(&got); err != nil || got != state {
			t.Errorf("an order is %s, %v, want %s", got, err, state)
		}
	}
	if err := rows.Err(); err != nil {
		t.Error(err)
	}
}
