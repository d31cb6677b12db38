package main

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"go.uber.org/fx"
	_ "modernc.org/sqlite" // the driver of the application

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/store/sqlite"
)

// Monolith is the application on a SQLite file: its orchestration and its execution,
// its page on a socket, and the timer module.
func Monolith(path string, socket net.Listener) fx.Option {
	return fx.Options(
		fx.Supply(fx.Annotate(socket, fx.As(new(net.Listener)))),
		fx.Provide(
			func(lc fx.Lifecycle) (*sql.DB, error) { return openDB(lc, path) },
			newLog,
			func() *Bus { return new(Bus) },
			NewOrchestration,
			NewExecution,
			NewPage,
		),
		timerModule(),
		fx.Invoke(func(*Execution) {}),
		fx.Invoke(serve),
	)
}

// timerModule is all that the application does to have timers.
func timerModule() fx.Option {
	return fx.Options(
		fx.Provide(func(db *sql.DB) app.Store { return sqlite.New(db, sqlite.Options{}) }), // your database
		app.Module(app.Options{}), // the timers
		app.ProvideHandler(func(o *Orchestration) app.Handler { return app.Handler{Handle: o.OnDue} }), // what you do when one is due
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

// serve serves the page from the start to the stop.
func serve(lc fx.Lifecycle, page http.Handler, socket net.Listener) {
	server := &http.Server{Handler: page, ReadHeaderTimeout: time.Second}
	lc.Append(fx.Hook{
		OnStart: func(context.Context) error {
			go func() { _ = server.Serve(socket) }() // it ends with Shutdown
			return nil
		},
		OnStop: server.Shutdown,
	})
}
