package app_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/timer"
)

func TestOnDueIsCalledBeforeTheStartOnceForEachPrefix(t *testing.T) {
	inMonolith(t, func(t *testing.T, m *monolith) {
		handle := func(context.Context, timer.DueTimeReached) error { return nil }
		panics := func(what string, do func()) {
			t.Helper()
			defer func() {
				if recover() == nil {
					t.Errorf("OnDue %s does not panic", what)
				}
			}()
			do()
		}
		timers, _ := m.runWith(app.Options{}, func(timers *app.Timers) {
			timers.OnDue("", handle, app.OnDueOptions{})
			timers.OnDue("order-", handle, app.OnDueOptions{})
			panics("twice", func() { timers.OnDue("order-", handle, app.OnDueOptions{}) })
			panics("twice without a prefix", func() { timers.OnDue("", handle, app.OnDueOptions{}) })
			panics("with a prefix that no service call has", func() { timers.OnDue("order ", handle, app.OnDueOptions{}) })
		})
		panics("after the start", func() { timers.OnDue("invoice-", handle, app.OnDueOptions{}) })
	})
}

// TestWhatNoHandlerWantsIsSaidAndKept until the program starts with a handler for it.
func TestWhatNoHandlerWantsIsSaidAndKept(t *testing.T) {
	inMonolith(t, func(t *testing.T, m *monolith) {
		only := func(prefix string) func(*app.Timers) {
			return func(timers *app.Timers) {
				timers.OnDue(prefix, func(_ context.Context, e timer.DueTimeReached) error { m.due <- e; return nil }, app.OnDueOptions{Attempts: 1})
			}
		}
		forwarderSays := func(a *app.App) (said string) {
			t.Helper()
			for _, c := range a.Checks(t.Context()) {
				if c.Red {
					t.Errorf("%+v", c)
				}
				if c.Part == "forwarder" {
					said = c.Reason
				}
			}
			return said
		}
		a, err := app.New(m.store, nil, quiet, app.Options{})
		if err != nil {
			t.Fatal(err)
		}
		only("order-")(a.Timers())
		stop := running(t, "app", a.Run)
		<-a.Running()
		if err := a.Timers().Schedule(t.Context(), in("invoice-1", 0), in("invoice-2", 0), in("x", 0), in("order-1", time.Second)); err != nil {
			t.Fatal(err)
		}
		if e := <-m.due; e.Key != keyOf("order-1") {
			t.Errorf("%s was handled", e.Key)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if said := forwarderSays(a); !strings.Contains(said, "2 invoice-…, 1 x…") {
			t.Errorf("the check of the forwarder says %q", said)
		}
		if s, err := m.store.Stats(t.Context(), ""); err != nil || s.Outbox != 3 || s.Parked != 0 {
			t.Errorf("%+v, %v", s, err)
		}
		stop()
		began := time.Now()
		m.runWith(app.Options{}, only("invoice-"))
		for range 2 {
			if e := <-m.due; !strings.HasPrefix(string(e.ServiceCallID), "invoice-") || time.Since(began) > time.Second {
				t.Errorf("%s was handled %v after the start", e.Key, time.Since(began))
			}
		}
		time.Sleep(time.Minute)
		if s, err := m.store.Stats(t.Context(), ""); err != nil || s.Outbox != 1 || len(m.due) != 0 {
			t.Errorf("%+v, %v; %d more events", s, err, len(m.due))
		}
	})
}

// TestAnInstanceLeavesToAnotherWhatItDoesNotWant runs two programs on one PostgreSQL that
// have handlers for different timers. Each books both kinds, so each fires both. In the
// end one stops, and its events wait until it starts again.
func TestAnInstanceLeavesToAnotherWhatItDoesNotWant(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	type handled struct {
		by string
		timer.DueTimeReached
	}
	const each = 50
	due := make(chan handled, 1000)
	var timers *app.Timers
	var db *postgres.Store
	start := func(prefix string) (stop func()) {
		s, err := postgres.Open(t.Context(), url, postgres.Options{Durability: postgres.Relaxed})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		a, err := app.New(instance{s, prefix}, nil, quiet, app.Options{BatchSize: 7})
		if err != nil {
			t.Fatal(err)
		}
		a.Timers().OnDue(prefix, func(_ context.Context, e timer.DueTimeReached) error { due <- handled{prefix, e}; return nil }, app.OnDueOptions{})
		stop = running(t, prefix, a.Run)
		<-a.Running()
		timers, db = a.Timers(), s
		return stop
	}
	book := func(prefix string, from int) {
		t.Helper()
		for i := range each {
			if err := timers.Schedule(t.Context(), in(name(prefix, from+i), 10*time.Millisecond)); err != nil {
				t.Fatal(err)
			}
		}
	}
	seen := make(map[timer.ServiceCallID]bool)
	await := func(n int) {
		t.Helper()
		late := time.After(time.Minute)
		for range n {
			select {
			case h := <-due:
				if !strings.HasPrefix(string(h.ServiceCallID), h.by) || seen[h.ServiceCallID] {
					t.Fatalf("%s was handled by the program of %s, before: %v", h.Key, h.by, seen[h.ServiceCallID])
				}
				seen[h.ServiceCallID] = true
			case <-late:
				t.Fatalf("%d events handled in a minute", len(seen))
			}
		}
	}
	stopOrders := start("order-")
	book("order-", 0)
	book("invoice-", 0)
	start("invoice-")
	book("order-", each)
	book("invoice-", each)
	await(4 * each)
	stopOrders()
	book("order-", 2*each)
	book("invoice-", 2*each)
	await(each)
	for late := time.After(time.Minute); ; {
		calls, err := db.Unclaimed(t.Context(), 1000)
		if err != nil {
			t.Fatal(err)
		}
		if len(calls) == each {
			break
		}
		select {
		case <-late:
			t.Fatalf("%d events are unclaimed after a minute", len(calls))
		default:
		}
	}
	start("order-")
	await(each)
}
