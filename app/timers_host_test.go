package app_test

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

func TestManyTimersAreCanceledAtOnce(t *testing.T) {
	inMonolith(t, func(t *testing.T, m *monolith) {
		timers, _ := m.run(app.Options{Quotas: limiter(t, quota.Config{Default: quota.Limits{Live: 5}})})
		related := in("invoice-1", time.Hour)
		related.CorrelationID = "order-1"
		newer := in("order-1.newer", time.Hour)
		newer.Version = timer.Version{TimestampMS: time.Now().Add(time.Hour).UnixMilli(), CommandID: "newer"}
		if err := timers.Schedule(t.Context(), in("order-1.pay", time.Hour), in("order-1.ship", time.Hour), in("order-10", time.Hour), related, newer); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		n, err := timers.CancelWhere(t.Context(), "acme", timer.Selection{Prefix: "order-1."})
		if want := (timer.CancelCounts{Canceled: 3}); err != nil || n != want {
			t.Errorf("%+v, %v, want %+v", n, err, want)
		}
		if err := timers.Schedule(t.Context(), in("order-2", 2*time.Hour), in("order-3", 3*time.Hour)); err != nil {
			t.Errorf("what was canceled does not count any more: %v", err)
		}
		if err := timers.Tx(t.Context(), func(tx *sql.Tx) error {
			n, err := timers.CancelWhereTx(t.Context(), tx, "acme", timer.Selection{CorrelationID: "order-1"})
			if n.Canceled != 1 {
				t.Errorf("%+v by correlation", n)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
		if _, err := timers.CancelWhere(t.Context(), "acme", timer.Selection{}); !errors.Is(err, timer.ErrInvalid) {
			t.Errorf("nothing is selected: %v", err)
		}
		m.wants("order-10", began.Add(time.Hour))
		m.wants("order-2", began.Add(2*time.Hour))
	})
}

// TestATransactionCancelsTenThousandAtMost: more would otherwise hold the database for long.
func TestATransactionCancelsTenThousandAtMost(t *testing.T) {
	inMonolith(t, func(t *testing.T, m *monolith) {
		timers, _ := m.run(app.Options{})
		for part := range 11 {
			many := make([]client.Timer, 1000)
			for i := range many {
				many[i] = in(fmt.Sprintf("call-%d-%d", part, i), time.Hour)
			}
			if err := timers.Schedule(t.Context(), many...); err != nil {
				t.Fatal(err)
			}
		}
		all := timer.Selection{Prefix: "call-"}
		err := timers.Tx(t.Context(), func(tx *sql.Tx) error {
			_, err := timers.CancelWhereTx(t.Context(), tx, "acme", all)
			return err
		})
		if !errors.Is(err, timer.ErrInvalid) || !strings.Contains(err.Error(), "more than 10000") {
			t.Errorf("in a transaction: %v", err)
		}
		n, err := timers.CancelWhere(t.Context(), "acme", all)
		if want := (timer.CancelCounts{Canceled: 11_000}); err != nil || n != want {
			t.Errorf("%+v, %v, want %+v", n, err, want)
		}
	})
}

// TestTwoInstancesWithClocksApart has one schedule what another one cancels, whose clock is
// behind.
func TestTwoInstancesWithClocksApart(t *testing.T) {
	inMonolith(t, func(t *testing.T, m *monolith) {
		at := func(ahead time.Duration) *app.Timers {
			a, err := app.New(m.store, nil, quiet, app.Options{Clock: timer.ClockFunc(func() time.Time { return time.Now().Add(ahead) })})
			if err != nil {
				t.Fatal(err)
			}
			return a.Timers()
		}
		ahead, behind := at(300*time.Millisecond), at(0)
		if err := ahead.Schedule(t.Context(), in("order-1", time.Hour), in("order-2", time.Hour)); err != nil {
			t.Fatal(err)
		}
		if err := behind.Schedule(t.Context(), in("order-1", 2*time.Hour)); err != nil {
			t.Errorf("move: %v", err)
		}
		if err := behind.Cancel(t.Context(), keyOf("order-1")); err != nil {
			t.Errorf("cancel: %v", err)
		}
		if n, err := behind.CancelWhere(t.Context(), "acme", timer.Selection{Prefix: "order-"}); err != nil || n.Canceled != 1 {
			t.Errorf("cancel many: %+v, %v", n, err)
		}
		for _, id := range []string{"order-1", "order-2"} {
			if e, err := behind.Get(t.Context(), keyOf(id)); err != nil || e.State != timer.Canceled {
				t.Errorf("%s is %s, %v", id, e.State, err)
			}
		}
		old := in("order-3", time.Hour)
		old.Version = timer.Version{TimestampMS: time.Now().Add(-time.Minute).UnixMilli(), CommandID: "old"}
		if err := behind.Schedule(t.Context(), in("order-3", time.Hour)); err != nil {
			t.Fatal(err)
		}
		if err := behind.Schedule(t.Context(), old); !errors.Is(err, timer.ErrStale) {
			t.Errorf("a version that was given is what decides: %v", err)
		}
	})
}

// TestForeignCommitsAreOnTime has a host commit what it has scheduled in transactions of its
// own, before the due time and after it, and roll one back.
func TestForeignCommitsAreOnTime(t *testing.T) {
	inMonolith(t, func(t *testing.T, m *monolith) {
		var polls atomic.Int64
		timers, _ := m.run(app.Options{PollingInterval: 5 * time.Second, Hooks: app.Hooks{Polled: func(time.Duration, error) { polls.Add(1) }}})
		begin := func(id string, after time.Duration) *sql.Tx {
			tx, err := m.store.DB().BeginTx(t.Context(), nil)
			if err == nil {
				err = timers.ScheduleTx(t.Context(), tx, in(id, after))
			}
			if err != nil {
				t.Fatal(err)
			}
			return tx
		}
		wants := func(id string, at time.Time) {
			e := <-m.due
			if late := time.Since(at); e.Key != keyOf(id) || late < 0 || late > 20*time.Millisecond {
				t.Errorf("%s came %v after the time of %s", e.Key, late, id)
			}
		}
		for i, open := range []time.Duration{0, 500 * time.Millisecond, 3 * time.Second} {
			id, due := fmt.Sprint("order-", i), time.Now().Add(time.Second)
			tx := begin(id, time.Second)
			time.Sleep(open)
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if due.Before(time.Now()) {
				due = time.Now()
			}
			wants(id, due)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		before := polls.Load()
		if err := begin("order-9", 0).Rollback(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if n := polls.Load() - before; n < 100 || n > 600 {
			t.Errorf("%d polls in the minute after a rollback, want some for 5 s, and few afterwards", n)
		}
	})
}
