// Command timer-shop is a program on a PostgreSQL database of its own that books orders and has
// them expire in its own process. It has no broker. verify/together.sh starts it next to others.
//
//	timer-shop --db URL --orders 60 --for 10s order- invoice-
//
// It has a handler for each prefix, books the orders of the first prefix, due over six seconds, and
// prints how many orders of each prefix have expired.
package main

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/timer"
)

func main() {
	url := flag.String("db", "", "URL of the database")
	orders := flag.Int("orders", 60, "how many it books")
	of := flag.String("book", "order-", "prefix of the orders that it books")
	long := flag.Duration("for", 10*time.Second, "how long it runs")
	flag.Parse()
	ctx, stop := context.WithTimeout(context.Background(), *long)
	defer stop()
	if err := run(ctx, *url, *of, *orders, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url, book string, orders int, prefixes []string) error {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := postgres.Migrate(ctx, db); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, expired integer NOT NULL DEFAULT 0)`); err != nil {
		return err
	}
	a, err := app.New(postgres.New(db, postgres.Options{}), nil, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})), app.Options{})
	if err != nil {
		return err
	}
	expire := func(ctx context.Context, tx *sql.Tx, e timer.DueTimeReached) error {
		_, err := tx.ExecContext(ctx, `UPDATE orders SET expired = expired + 1 WHERE id = $1`, string(e.ServiceCallID))
		return err
	}
	for _, prefix := range prefixes {
		a.Timers().OnDueTx(prefix, expire, app.OnDueOptions{})
	}
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	select {
	case <-a.Running():
	case err := <-ended:
		return err
	}
	fmt.Println("ready")
	for n := range orders {
		id, after := fmt.Sprintf("%s%d-%d", book, os.Getpid(), n), time.Second+time.Duration(n)*100*time.Millisecond
		if err := a.Timers().Tx(ctx, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, `INSERT INTO orders (id) VALUES ($1)`, id); err != nil {
				return err
			}
			return a.Timers().ScheduleTx(ctx, tx, client.Timer{TenantID: "acme", ServiceCallID: timer.ServiceCallID(id), After: after})
		}); err != nil {
			return err
		}
	}
	red := ""
	for pause.For(ctx, 500*time.Millisecond) {
		for _, c := range a.Checks(ctx) {
			if c.Red && c.Reason != red && ctx.Err() == nil {
				red = c.Reason
				fmt.Println("red:", c.Part+":", red)
			}
		}
	}
	return <-ended
}
