package app_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"time"

	"go.uber.org/fx"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/gochannel"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// log is the program's.
var log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))

// openDatabase opens the program's database, which has the tables of the timers.
func openDatabase(path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", sqlite.DSN(path))
	if err != nil {
		return nil, err
	}
	return db, sqlite.Migrate(context.Background(), db)
}

// inTemporaryDatabase calls an example with a database, and prints its error.
func inTemporaryDatabase(example func(ctx context.Context, stop func(), db *sql.DB) error) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	db, err := openDatabase(dir + "/host.db")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	if err := example(ctx, stop, db); err != nil {
		fmt.Println(err)
	}
}

// A program without a broker and without fx, on nothing but its database.
func Example() {
	inTemporaryDatabase(func(ctx context.Context, stop func(), db *sql.DB) error {
		a, err := app.New(sqlite.New(db, sqlite.Options{}), nil, log, app.Options{})
		if err != nil {
			return err
		}
		a.Timers().OnDue("", func(_ context.Context, e timer.DueTimeReached) error {
			fmt.Println("due:", e.ServiceCallID)
			stop()
			return nil // then the event is deleted
		}, app.OnDueOptions{})
		if err := a.Timers().Schedule(ctx, client.Timer{TenantID: "acme", ServiceCallID: "order-1", After: 10 * time.Millisecond}); err != nil {
			return err
		}
		return a.Run(ctx) // until ctx is done
	})
	// Output: due: order-1
}

// An order and its timer commit together or not at all, and the order is canceled once,
// however often the process dies in between.
func ExampleTimers_OnDueTx() {
	inTemporaryDatabase(func(ctx context.Context, stop func(), db *sql.DB) error {
		if _, err := db.ExecContext(ctx, `CREATE TABLE orders (id TEXT PRIMARY KEY, state TEXT NOT NULL) STRICT`); err != nil {
			return err
		}
		a, err := app.New(sqlite.New(db, sqlite.Options{}), nil, log, app.Options{})
		if err != nil {
			return err
		}
		timers := a.Timers()
		timers.OnDueTx("", func(ctx context.Context, tx *sql.Tx, e timer.DueTimeReached) error {
			defer stop()
			_, err := tx.ExecContext(ctx, `UPDATE orders SET state = 'canceled' WHERE id = ?`, string(e.ServiceCallID))
			return err
		}, app.OnDueOptions{})
		if err := timers.Tx(ctx, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, `INSERT INTO orders (id, state) VALUES ('order-1', 'booked')`); err != nil {
				return err
			}
			return timers.ScheduleTx(ctx, tx, client.Timer{TenantID: "acme", ServiceCallID: "order-1", After: 10 * time.Millisecond})
		}); err != nil {
			return err
		}
		if err := a.Run(ctx); err != nil {
			return err
		}
		var state string
		err = db.QueryRow(`SELECT state FROM orders WHERE id = 'order-1'`).Scan(&state)
		fmt.Println("order-1 is", state)
		return err
	})
	// Output: order-1 is canceled
}

// The module in an fx application that has a database and a log.
func ExampleModule() {
	inTemporaryDatabase(func(ctx context.Context, _ func(), db *sql.DB) error {
		due := make(chan timer.DueTimeReached)
		var timers *app.Timers
		program := fx.New(
			fx.NopLogger,
			fx.Supply(log), // your *slog.Logger

			fx.Supply(fx.Annotate(sqlite.New(db, sqlite.Options{}), fx.As(new(app.Store)))), // your database
			app.Module(app.Options{}), // the timers
			fx.Invoke(func(t *app.Timers) {
				t.OnDue("", func(_ context.Context, e timer.DueTimeReached) error { due <- e; return nil }, app.OnDueOptions{})
			}), // what you do when they are due

			fx.Populate(&timers),
		)
		if err := program.Start(ctx); err != nil {
			return err
		}
		if err := timers.Schedule(ctx, client.Timer{TenantID: "acme", ServiceCallID: "order-1", After: time.Millisecond}); err != nil {
			return err
		}
		fmt.Println("due:", (<-due).ServiceCallID)
		return program.Stop(ctx)
	})
	// Output: due: order-1
}

// The app runs a broker that it has for itself: commands come over it as well,
// and events go to it.
func ExampleOptions_runBroker() {
	inTemporaryDatabase(func(ctx context.Context, stop func(), db *sql.DB) error {
		var b broker.Broker = gochannel.New(gochannel.Options{}, log)
		events, err := b.Tail().Subscribe(ctx, b.Routing().EventsOf("acme"))
		if err != nil {
			return err
		}
		a, err := app.New(sqlite.New(db, sqlite.Options{}), b, log, app.Options{RunBroker: true})
		if err != nil {
			return err
		}
		if err := a.Timers().Schedule(ctx, client.Timer{TenantID: "acme", ServiceCallID: "order-1", After: time.Millisecond}); err != nil {
			return err
		}
		go func() {
			msg := <-events
			fmt.Println(msg.Metadata.Get(envelope.HeaderType), msg.Metadata.Get(envelope.HeaderServiceCallID))
			stop()
		}()
		return a.Run(ctx)
	})
	// Output: DueTimeReached order-1
}
