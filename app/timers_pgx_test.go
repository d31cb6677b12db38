package app_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/event-service-agent/timer-service/app"
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
	timers.OnDue(func(_ context.Context, e timer.DueTimeReached) error { due <- e; return nil }, app.OnDueOptions{})
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
	timers.Wake()
	if e := <-due; e.Key != keyOf("order-2") {
		t.Errorf("%s fired", e.Key)
	}
}
