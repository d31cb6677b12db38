package app_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/client"
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

// A program without a broker and without fx, on nothing but its database.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	db, err := openDatabase(dir + "/host.db")
	if err != nil {
		panic(err)
	}
	defer db.Close()

	a, err := app.New(sqlite.New(db, sqlite.Options{}), nil, log, app.Options{})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	a.Timers().OnDue("", func(_ context.Context, e timer.DueTimeReached) error {
		fmt.Println("due:", e.ServiceCallID)
		stop()
		return nil // then the event is deleted
	}, app.OnDueOptions{})
	if err := a.Timers().Schedule(ctx, client.Timer{TenantID: "acme", ServiceCallID: "order-1", After: 10 * time.Millisecond}); err != nil {
		panic(err)
	}
	if err := a.Run(ctx); err != nil { // until ctx is done
		panic(err)
	}
	// Output: due: order-1
}
