// Command monolith shows the timer service as a module inside an application
// that has a database, a table and a broker of its own. The application books
// service calls; when one is due it runs it, once, however often the event
// arrives.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"go.uber.org/fx"
	_ "modernc.org/sqlite" // the host's driver

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/gochannel"
	"github.com/event-service-agent/timer-service/store/sqlite"
)

func main() {
	dir, err := os.MkdirTemp("", "monolith")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)

	ran := make(chan string, 1)
	monolith := fx.New(
		Monolith(dir+"/monolith.db", func(call string) { ran <- call }),
		fx.NopLogger,
		fx.Invoke(func(lc fx.Lifecycle, o *Orchestration) {
			lc.Append(fx.StartHook(func(ctx context.Context) error {
				return o.Book(ctx, "acme", "order-1", time.Now().Add(time.Second))
			}))
		}),
	)
	ctx := context.Background()
	if err := monolith.Start(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("ran", <-ran)
	if err := monolith.Stop(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Monolith is the application: its database, its broker, its orchestration,
// and the timer module on top of them. Execute runs a service call.
func Monolith(path string, execute func(call string)) fx.Option {
	return fx.Options(
		fx.Provide(
			func(lc fx.Lifecycle) (*sql.DB, error) { return openDB(lc, path) },     // your database
			func(db *sql.DB) app.Store { return sqlite.New(db, sqlite.Options{}) }, // the timers are in it
			newBroker, // your broker: NATS, Kafka, RabbitMQ, or gochannel in tests
			newLog,    // your *slog.Logger
		),
		orchestration(execute),    // your code, which handles the events
		app.Module(app.Options{}), // the timer service
	)
}

// orchestration provides the Orchestration and runs it. It starts before the
// timer module, so that it is subscribed when the first timer fires.
func orchestration(execute func(call string)) fx.Option {
	return fx.Options(
		fx.Provide(func(db *sql.DB, b broker.Broker, log *slog.Logger) *Orchestration {
			return &Orchestration{db: db, broker: b, log: log, execute: execute}
		}),
		fx.Invoke(func(lc fx.Lifecycle, sd fx.Shutdowner, o *Orchestration, log *slog.Logger) {
			app.Running(lc, sd, log, "orchestration", o.Run, o.Subscribed(), 5*time.Second)
		}),
	)
}

func newLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// openDB opens the application's own database and migrates it: the table of
// the application first, then those of the timer service, then the reference
// between them.
func openDB(lc fx.Lifecycle, path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", sqlite.DSN(path))
	if err != nil {
		return nil, err
	}
	lc.Append(fx.StopHook(db.Close))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := db.ExecContext(ctx, createServiceCalls); err != nil {
		return nil, err
	}
	return db, errors.Join(sqlite.Migrate(ctx, db), sqlite.ReferenceServiceCalls(ctx, db))
}

// newBroker provides the broker that the application and the module share.
func newBroker(lc fx.Lifecycle, sd fx.Shutdowner, log *slog.Logger) broker.Broker {
	b := gochannel.New(gochannel.Options{}, log)
	app.RunBroker(lc, sd, log, b)
	return b
}
