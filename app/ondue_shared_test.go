package app_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/timer"
)

// An instance is a store in a process of its own, as far as an app can tell.
type instance struct {
	*postgres.Store
	process string
}

func (i instance) Identity(ctx context.Context) (id, name string, err error) {
	id, name, err = i.Store.Identity(ctx)
	return id, name + " " + i.process, err
}

// TestInstancesHandleEachEventOnce runs three programs on one PostgreSQL, each of which
// books timers in transactions and handles what is due. One stops on the way: the
// others take over what it leaves.
func TestInstancesHandleEachEventOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	const instances, each = 3, 100
	var apps sync.WaitGroup
	defer apps.Wait()
	var db *sql.DB
	for i := range instances {
		s, err := postgres.Open(t.Context(), url, postgres.Options{Durability: postgres.Relaxed})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		if i == 0 {
			db = s.DB()
			if _, err := db.ExecContext(t.Context(), `CREATE TABLE handled (call TEXT NOT NULL)`); err != nil {
				t.Fatal(err)
			}
		}
		a, err := app.New(instance{s, name("process-", i)}, nil, quiet, app.Options{BatchSize: 20})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		seen := 0
		a.Timers().OnDueTx("", func(ctx context.Context, tx *sql.Tx, e timer.DueTimeReached) error {
			if seen++; i == 0 && seen == 10 { // with one at once
				defer stop()
			}
			_, err := tx.ExecContext(ctx, `INSERT INTO handled (call) VALUES ($1)`, string(e.ServiceCallID))
			return err
		}, app.OnDueOptions{Concurrency: 1})
		apps.Go(func() {
			if err := a.Run(ctx); err != nil {
				t.Errorf("instance %d: %v", i, err)
			}
		})
		apps.Go(func() {
			for n := range each {
				err := a.Timers().Tx(t.Context(), func(tx *sql.Tx) error {
					id := timer.ServiceCallID(name("call-", i*each+n))
					return a.Timers().ScheduleTx(t.Context(), tx, client.Timer{TenantID: "acme", ServiceCallID: id, After: 100 * time.Millisecond})
				})
				if err != nil {
					t.Errorf("instance %d: %v", i, err)
				}
			}
		})
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for {
		var rows, calls, waiting int
		err := errors.Join(
			db.QueryRowContext(t.Context(), `SELECT count(*), count(DISTINCT call) FROM handled`).Scan(&rows, &calls),
			db.QueryRowContext(t.Context(), `SELECT count(*) FROM timer_outbox`).Scan(&waiting),
		)
		if err != nil {
			t.Fatal(err)
		}
		if rows != calls {
			t.Fatalf("%d rows of %d events", rows, calls)
		}
		if calls == instances*each && waiting == 0 {
			break
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%d events handled in a minute, %d wait", calls, waiting)
		}
	}
}
