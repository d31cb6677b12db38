package app_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/timer"
)

// TestTimersInATransactionOfPgx has a host that uses pgx without database/sql.
func TestTimersInATransactionOfPgx(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, err := postgres.Open(t.Context(), url, postgres.Options{Durability: postgres.Relaxed})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	a, err := app.New(s, nil, quiet, app.Options{PollingInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	timers, due := a.Timers(), make(chan timer.DueTimeReached, 1)
	timers.OnDue("", func(_ context.Context, e timer.DueTimeReached) error { due <- e; return nil }, app.OnDueOptions{})
	defer running(t, "app", a.Run)()
	<-a.Running()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	book := func(id string, end func(pgx.Tx) error) {
		t.Helper()
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(timers.In(s.JoinPgx(tx)).Schedule(t.Context(), in(id, 0)), end(tx)); err != nil {
			t.Fatal(err)
		}
	}
	book("order-1", func(tx pgx.Tx) error { return tx.Rollback(t.Context()) })
	if _, err := timers.Get(t.Context(), keyOf("order-1")); !errors.Is(err, timer.ErrNotFound) {
		t.Errorf("after the rollback: %v, want ErrNotFound", err)
	}
	book("order-2", func(tx pgx.Tx) error { return tx.Commit(t.Context()) })
	if e := <-due; e.Key != keyOf("order-2") {
		t.Errorf("%s fired", e.Key)
	}
}

// TestOnDueTxOfPgxTakesEffectOnce has a handler write, schedule the next timer, and fail
// after both in each way there is: by an error, a panic, a connection that is lost, and a
// commit that is refused.
func TestOnDueTxOfPgxTakesEffectOnce(t *testing.T) {
	t.Parallel()
	s, err := postgres.Open(t.Context(), pgtest.URL(t), postgres.Options{Durability: postgres.Relaxed})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, create := range []string{
		`CREATE TABLE orders (id text NOT NULL, try integer NOT NULL)`,
		`CREATE TABLE once (id text UNIQUE DEFERRABLE INITIALLY DEFERRED)`,
	} {
		if _, err := s.DB().ExecContext(t.Context(), create); err != nil {
			t.Fatal(err)
		}
	}
	a, err := app.New(s, nil, quiet, app.Options{PollingInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	timers, tries, reminded := a.Timers(), 0, make(chan timer.DueTimeReached, 10)
	app.OnDueTx(timers, s.Pgx(), "order-", func(ctx context.Context, tx pgx.Tx, in app.Joined, e timer.DueTimeReached) error {
		tries++
		if _, err := tx.Exec(ctx, `INSERT INTO orders (id, try) VALUES ($1, $2)`, string(e.ServiceCallID), tries); err != nil {
			return err
		}
		next := client.Timer{TenantID: "acme", ServiceCallID: timer.ServiceCallID(name("reminder-", tries)), After: 10 * time.Millisecond}
		if err := errors.Join(in.Schedule(ctx, next), beside(ctx, timers)); err != nil {
			return err
		}
		switch tries {
		case 1:
			return errors.New("not yet")
		case 2:
			panic("no")
		case 3:
			return tx.Conn().Close(ctx)
		case 4:
			_, err := tx.Exec(ctx, `INSERT INTO once (id) VALUES ('a'), ('a')`)
			return err
		}
		return nil
	}, app.OnDueOptions{MinDelay: time.Millisecond, MaxDelay: time.Millisecond})
	timers.OnDue("", func(_ context.Context, e timer.DueTimeReached) error { reminded <- e; return nil }, app.OnDueOptions{})
	defer running(t, "app", a.Run)()
	<-a.Running()

	no := errors.New("no")
	book := func(id string, end error) error {
		return app.Tx(t.Context(), timers, s.Pgx(), func(tx pgx.Tx, joined app.Joined) error {
			if _, err := tx.Exec(t.Context(), `INSERT INTO orders (id, try) VALUES ($1, 0)`, id); err != nil {
				return err
			}
			return errors.Join(joined.Schedule(t.Context(), in(id, 10*time.Millisecond)), end)
		})
	}
	if err := book("order-2", no); !errors.Is(err, no) {
		t.Errorf("a transaction that fails: %v", err)
	}
	if err := book("order-1", nil); err != nil {
		t.Fatal(err)
	}
	if e := <-reminded; e.ServiceCallID != "reminder-5" || e.Lateness() > 5*time.Second {
		t.Errorf("%s fired, %v late; want that of the fifth try, on time", e.Key, e.Lateness())
	}
	var ids string
	if err := s.DB().QueryRowContext(t.Context(), `SELECT string_agg(id || ' at ' || try, ', ' ORDER BY try) FROM orders`).Scan(&ids); err != nil || ids != "order-1 at 0, order-1 at 5" {
		t.Errorf("the orders are %q, %v; want what the booking and the fifth try have written", ids, err)
	}
	if n := len(reminded); tries != 5 || n != 0 {
		t.Errorf("%d tries, %d more reminders", tries, n)
	}
}

// beside returns an error unless a handler is refused to write beside its transaction.
func beside(ctx context.Context, timers *app.Timers) error {
	if err := timers.Schedule(ctx, in("beside", 0)); err == nil {
		return errors.New("a handler wrote beside its transaction")
	}
	return nil
}
