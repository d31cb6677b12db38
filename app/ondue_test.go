package app_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/timer"
)

// TestOnDueTxTakesEffectOnce has the handler write, schedule the next timer, and fail
// after both.
func TestOnDueTxTakesEffectOnce(t *testing.T) {
	inMonolith(t, func(t *testing.T, m *monolith) {
		tries := 0
		began := time.Now()
		var timers *app.Timers
		timers, _ = m.runWith(app.Options{PollingInterval: time.Hour}, func(timers *app.Timers) {
			timers.OnDueTx("", func(ctx context.Context, tx *sql.Tx, e timer.DueTimeReached) error {
				tries++
				id := fmt.Sprintf("%s at %v", e.ServiceCallID, e.DueAt.Sub(began))
				if _, err := tx.ExecContext(ctx, `INSERT INTO orders (id) VALUES (?)`, id); err != nil {
					return err
				}
				if e.ServiceCallID == "order-1" {
					if err := timers.ScheduleTx(ctx, tx, in("order-1-reminder", time.Minute)); err != nil {
						return err
					}
				}
				switch tries {
				case 1:
					return errors.New("not yet")
				case 2:
					panic("no")
				}
				return nil
			}, app.OnDueOptions{MinDelay: time.Second, MaxDelay: time.Second})
		})
		if err := timers.Schedule(t.Context(), in("order-1", time.Second)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		var ids []string
		rows, err := m.store.DB().QueryContext(t.Context(), `SELECT id FROM orders ORDER BY id`)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		if tries != 4 || len(ids) != 2 || !strings.HasPrefix(ids[0], "order-1 at 1s") || !strings.HasPrefix(ids[1], "order-1-reminder at 1m") {
			t.Errorf("%d tries, %q", tries, ids)
		}
		if e, err := timers.Get(t.Context(), keyOf("order-1-reminder")); err != nil || e.ReachedAt.Sub(e.DueAt) > 10*time.Millisecond {
			t.Errorf("%+v, %v: want it on time", e, err)
		}
		if s, err := m.store.Stats(t.Context(), ""); err != nil || s.Outbox != 0 {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

// TestStopWaitsForTheHandler stops while a handler is at work that schedules at its
// end, and one that waits for its context.
func TestStopWaitsForTheHandler(t *testing.T) {
	inMonolith(t, func(t *testing.T, m *monolith) {
		ends := make(chan error, 2)
		timers, stop := m.runWith(app.Options{DrainTimeout: 5 * time.Second}, func(timers *app.Timers) {
			timers.OnDue("", func(ctx context.Context, e timer.DueTimeReached) error {
				if e.ServiceCallID == "slow" {
					<-ctx.Done()
					return ctx.Err()
				}
				time.Sleep(3 * time.Second)
				err := timers.Schedule(ctx, in("next", time.Hour))
				ends <- err
				return err
			}, app.OnDueOptions{})
		})
		if err := timers.Schedule(t.Context(), in("order-1", 0), in("slow", 0)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		began := time.Now()
		stop()
		if took := time.Since(began); took < 5*time.Second || took > 7*time.Second {
			t.Errorf("the stop took %v, want 5s", took)
		}
		if err := <-ends; err != nil {
			t.Errorf("to schedule while it stops: %v", err)
		}
		if s, err := m.store.Stats(t.Context(), ""); err != nil || s.Outbox != 1 || s.Scheduled != 1 {
			t.Errorf("%+v, %v: want the event of the slow one, and the next timer", s, err)
		}
		m.run(app.Options{}) // the next start hands it over at once
		if e := <-m.due; e.Key != keyOf("slow") || time.Since(began) > 10*time.Second {
			t.Errorf("%s after %v", e.Key, time.Since(began))
		}
	})
}

func TestEventsNeedSomewhereToGo(t *testing.T) {
	inMonolith(t, func(t *testing.T, m *monolith) {
		a, err := app.New(m.store, nil, quiet, app.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "OnDue") {
			t.Errorf("Run: %v, want an error that names OnDue", err)
		}
	})
}

func TestChecksOfAnAppWithoutABrokerAreGreen(t *testing.T) {
	inMonolith(t, func(t *testing.T, m *monolith) {
		a, err := app.New(m.store, nil, quiet, app.Options{})
		if err != nil {
			t.Fatal(err)
		}
		a.Timers().OnDue("", func(ctx context.Context, _ timer.DueTimeReached) error { <-ctx.Done(); return ctx.Err() }, app.OnDueOptions{})
		running(t, "app", a.Run)
		<-a.Running()
		if err := a.Timers().Schedule(t.Context(), in("order-1", 0)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second) // a handler that is at work is no reason to worry
		said := ""
		for _, c := range a.Checks(t.Context()) {
			if c.Red {
				t.Errorf("%+v", c)
			}
			if c.Part == "broker" {
				said = c.Reason
			}
		}
		if !strings.Contains(said, "there is none") {
			t.Errorf("the check of the broker says %q", said)
		}
	})
}

// TestWithABrokerAndOnDueEventsGoToTheHandlerOnly schedules over the broker.
func TestWithABrokerAndOnDueEventsGoToTheHandlerOnly(t *testing.T) {
	inBubbles(t, func(t *testing.T, b *bench) {
		a, err := app.New(b.store, b.broker, quiet, app.Options{})
		if err != nil {
			t.Fatal(err)
		}
		due := make(chan timer.DueTimeReached, 2)
		a.Timers().OnDue("", func(_ context.Context, e timer.DueTimeReached) error { due <- e; return nil }, app.OnDueOptions{})
		running(t, "app", a.Run)
		<-a.Running()
		time.Sleep(100 * time.Millisecond)
		b.schedule("call-1", time.Now().Add(time.Minute))
		if e := <-due; e.ServiceCallID != "call-1" || e.Lateness() != 0 {
			t.Errorf("%+v", e)
		}
		b.quietFor(time.Hour)
	})
}

// TestAnEventThatWaitsForItsTransactionHasNotFailed has one handler keep the only
// writer for all its time, while another event waits for that.
func TestAnEventThatWaitsForItsTransactionHasNotFailed(t *testing.T) {
	inMonolith(t, func(t *testing.T, m *monolith) {
		timers, _ := m.runWith(app.Options{}, func(timers *app.Timers) {
			timers.OnDueTx("", func(ctx context.Context, _ *sql.Tx, e timer.DueTimeReached) error {
				if e.ServiceCallID == "hangs" {
					<-ctx.Done()
					return ctx.Err()
				}
				m.due <- e
				return nil
			}, app.OnDueOptions{Attempts: 1, Timeout: time.Minute})
		})
		if err := timers.Schedule(t.Context(), in("hangs", 0), in("order-1", 0), in("order-2", 0)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if s, err := m.store.Stats(t.Context(), ""); err != nil || s.Outbox != 0 || s.Parked != 1 || len(m.due) != 2 {
			t.Errorf("%d handled, %+v, %v: want only the one parked that failed", len(m.due), s, err)
		}
	})
}

// TestATransactionThatComesLateLeavesTheHandlerItsTime has two handlers that take most
// of their time, one after the other since there is one writer.
func TestATransactionThatComesLateLeavesTheHandlerItsTime(t *testing.T) {
	inMonolith(t, func(t *testing.T, m *monolith) {
		timers, _ := m.runWith(app.Options{PollingInterval: time.Hour}, func(timers *app.Timers) {
			timers.OnDueTx("", func(ctx context.Context, _ *sql.Tx, e timer.DueTimeReached) error {
				select {
				case <-time.After(40 * time.Second):
					m.due <- e
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}, app.OnDueOptions{Attempts: 1, Timeout: time.Minute})
		})
		if err := timers.Schedule(t.Context(), in("order-1", 0), in("order-2", 0), in("order-3", 0)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Minute)
		synctest.Wait()
		if s, err := m.store.Stats(t.Context(), ""); err != nil || s.Outbox != 0 || s.Parked != 0 || len(m.due) != 3 {
			t.Errorf("%d handled, %+v, %v", len(m.due), s, err)
		}
	})
}

// TestAHandlerWithATransactionCannotWriteBesideIt has a handler schedule, cancel and
// begin another transaction, all of which would wait for its own on SQLite.
func TestAHandlerWithATransactionCannotWriteBesideIt(t *testing.T) {
	inMonolith(t, func(t *testing.T, m *monolith) {
		began := time.Now()
		var errs []error
		var timers *app.Timers
		timers, _ = m.runWith(app.Options{}, func(on *app.Timers) {
			on.OnDueTx("", func(ctx context.Context, tx *sql.Tx, e timer.DueTimeReached) error {
				errs = append(errs,
					timers.Schedule(ctx, in("order-2", time.Hour)),
					timers.Cancel(ctx, keyOf("order-2")),
					timers.Tx(ctx, func(*sql.Tx) error { return nil }))
				m.due <- e
				return timers.ScheduleTx(ctx, tx, in("order-3", time.Hour))
			}, app.OnDueOptions{})
		})
		if err := timers.Schedule(t.Context(), in("order-1", 0)); err != nil {
			t.Fatal(err)
		}
		<-m.due
		synctest.Wait()
		if took := time.Since(began); took > time.Second {
			t.Errorf("the handler took %v", took)
		}
		for i, err := range errs {
			if err == nil || !strings.Contains(err.Error(), "ScheduleTx") || errors.Is(err, timer.ErrInvalid) {
				t.Errorf("%d: %v, want one that says what to call instead", i, err)
			}
		}
		if _, err := timers.Get(t.Context(), keyOf("order-3")); err != nil {
			t.Error(err)
		}
	})
}

// TestEventsThatFailAreAReason has a handler that fails for an hour, and one event of which
// it says that no attempt can help. An operator sees both, and whose events they are.
func TestEventsThatFailAreAReason(t *testing.T) {
	inMonolith(t, func(t *testing.T, m *monolith) {
		a, err := app.New(m.store, nil, quiet, app.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var healed atomic.Bool
		a.Timers().OnDue("", func(_ context.Context, e timer.DueTimeReached) error {
			switch {
			case healed.Load():
				return nil
			case e.ServiceCallID == "order-2":
				return timer.Invalid(timer.ReasonBadField, "no such order")
			}
			return errors.New("no such column")
		}, app.OnDueOptions{MinDelay: 4 * time.Second, MaxDelay: 5 * time.Minute})
		running(t, "app", a.Run)
		<-a.Running()
		reason := func() string {
			for _, c := range a.Checks(t.Context()) {
				if c.Part == "forwarder" {
					if c.Red {
						t.Errorf("red: %s", c.Reason)
					}
					return c.Reason
				}
			}
			return ""
		}
		if err := a.Timers().Schedule(t.Context(), in("order-1", 0)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		if got := reason(); got != "" {
			t.Errorf("after five minutes: %s", got)
		}
		time.Sleep(10 * time.Minute)
		if got := reason(); !strings.Contains(got, "1 events have failed") || !strings.Contains(got, "order-1: no such column") {
			t.Errorf("after fifteen minutes: %q", got)
		}
		if err := a.Timers().Schedule(t.Context(), in("order-2", 0)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		parked, err := a.Timers().Parked(t.Context(), "", 0, 10)
		if err != nil || len(parked) != 1 {
			t.Fatalf("parked %v, %v", parked, err)
		}
		if c, err := a.Timers().Counts(t.Context(), "acme"); err != nil || c.Reached != 2 || c.Failing != 1 || c.Parked != 1 {
			t.Errorf("counts %+v, %v", c, err)
		}
		if c, err := a.Timers().Counts(t.Context(), "other"); err != nil || c != (app.Counts{}) {
			t.Errorf("counts of another tenant %+v, %v", c, err)
		}
		healed.Store(true)
		time.Sleep(6 * time.Minute)
		if got := reason(); !strings.Contains(got, "order-2") || !strings.Contains(got, "no such order") {
			t.Errorf("with a parked event: %q", got)
		}
		if n, err := a.Timers().Retry(t.Context(), parked[0].Seq); n != 1 || err != nil {
			t.Errorf("retried %d, %v", n, err)
		}
		time.Sleep(time.Minute)
		if got := reason(); got != "" {
			t.Errorf("after the cure: %s", got)
		}
	})
}
