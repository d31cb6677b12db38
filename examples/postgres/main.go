// Command postgres is an application that has PostgreSQL and Watermill already, and
// uses both for its timers: they are booked in its own pgx transactions, and events come
// over its own publisher and subscriber. README.md says what it shows.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver
	"golang.org/x/sync/errgroup"

	"github.com/event-service-agent/timer-service/app"
	wm "github.com/event-service-agent/timer-service/broker/watermill"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/store/postgres"
)

func main() {
	url := flag.String("db", "postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable", "URL of the database")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *url, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run runs the shop and its timers until ctx is done.
func run(ctx context.Context, url string, out io.Writer) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	pool, db, err := open(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	defer db.Close()
	pair, err := newPair(db)
	if err != nil {
		return err
	}
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NewSlogLogger(log))
	if err != nil {
		return err
	}

	// The timers, on the database of the application.
	store, b := postgres.New(db, postgres.Options{}), wm.New(pair.publisher, pair.subscriber, pair.options(), log)
	service, err := app.New(store, b, log, app.Options{RunBroker: true})
	if err != nil {
		return err
	}
	s := &shop{pool: pool, store: store, timers: service.Timers(), out: out}
	events, err := pair.subscriber("shop")
	if err != nil {
		return err
	}
	client.OnDue(router, events, s.expire, client.OnDueOptions{Topic: b.Routing().EventsOf("acme")})

	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error { return service.Run(ctx) })
	work.Go(func() error { return router.Run(ctx) })
	work.Go(func() error { return s.demo(ctx) })
	return work.Wait()
}

// open opens the database, with the table of the shop and those of the timers.
func open(ctx context.Context, url string) (*pgxpool.Pool, *sql.DB, error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, nil, err
	}
	db, err := sql.Open("pgx", url) // for the timers and for Watermill
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(20)
	_, err = pool.Exec(ctx, `CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, state text NOT NULL)`)
	return pool, db, errors.Join(err, postgres.Migrate(ctx, db))
}

// demo orders twice and pays once.
func (s *shop) demo(ctx context.Context) error {
	prefix := time.Now().Format("order-150405-")
	for _, n := range []string{"1", "2"} {
		if err := s.order(ctx, prefix+n, time.Second); err != nil {
			return err
		}
	}
	return s.pay(ctx, prefix+"2")
}
