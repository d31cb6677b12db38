package postgres_test

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/timer"
)

// A host has the timers in its own database. Its handle is one of pgx, such as this
// one; nothing connects before it is used.
func ExampleNew() {
	db, err := postgres.Connect("postgres://host@127.0.0.1:1/orders?connect_timeout=1")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	ctx := context.Background()

	err = postgres.Migrate(ctx, db) // before the first start, and after an update
	fmt.Println("the server is away:", postgres.IsAbsent(err))

	var store app.Store = postgres.New(db, postgres.Options{}) // for app.New and app.Module
	fmt.Println("instances:", store.Shared().Instances())
	// Output:
	// the server is away: true
	// instances: 1
}

// A transaction of pgx's own books an order and its timer: both are there after the
// commit, or neither. With [app.Timers] it is timers.In(store.JoinPgx(tx)).Schedule.
func ExampleStore_JoinPgx() {
	book := func(ctx context.Context, pool *pgxpool.Pool, store *postgres.Store, now time.Time) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `INSERT INTO orders (id) VALUES ('order-1')`); err != nil {
				return err
			}
			_, err := store.JoinPgx(tx).Schedule(ctx, now, timer.ScheduleTimer{
				Key:     timer.Key{TenantID: "acme", ServiceCallID: "order-1"},
				Version: timer.Version{TimestampMS: now.UnixMilli(), CommandID: "order-1-booked"},
				DueAt:   now.Add(3 * time.Hour),
			})
			return err // of the database; a command that is refused has a result that says so
		})
	}
	_ = book
}
