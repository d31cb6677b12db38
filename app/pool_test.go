package app_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/timer"
)

// TestAPoolOfPgxCloses once Run has ended, though a handler that is at work never does: the
// lease gives its connection back.
func TestAPoolOfPgxCloses(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDBFromPool(pool)
	if err := postgres.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	a, err := app.New(postgres.New(db, postgres.Options{}), nil, quiet, app.Options{DrainTimeout: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	begun, end := make(chan struct{}), make(chan struct{})
	defer close(end)
	a.Timers().OnDue("", func(context.Context, timer.DueTimeReached) error {
		close(begun)
		<-end
		return nil
	}, app.OnDueOptions{})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	<-a.Running()
	if err := a.Timers().Schedule(t.Context(), in("order-1", 0)); err != nil {
		t.Fatal(err)
	}
	<-begun
	stop()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "forwarder did not end in time") {
		t.Error(err)
	}
	pool.Close()
}
