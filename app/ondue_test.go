package app_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// handleTx returns what registers a handler with a transaction.
func handleTx(handle func(ctx context.Context, tx *sql.Tx, e timer.DueTimeReached) error, opt app.OnDueOptions) func(*app.Timers) {
	return func(timers *app.Timers) { timers.OnDueTx("", handle, opt) }
}

// TestOnDueTxTakesEffectOnce has the handler write, schedule the next timer, and fail
// after both.
func TestOnDueTxTakesEffectOnce(t *testing.T) {
	inBubble(t, func(b *bench) {
		_, err := b.store.DB().ExecContext(b.Context(), `CREATE TABLE orders (id TEXT PRIMARY KEY) STRICT`)
		must(b, err)
		tries, began := 0, time.Now()
		var timers *app.Timers
		counters := new(app.Counters)
		a, _ := b.serve(app.Options{PollingInterval: time.Hour, Counters: counters}, handleTx(func(ctx context.Context, tx *sql.Tx, e timer.DueTimeReached) error {
			tries++
			id := fmt.Sprintf("%s at %v", e.ServiceCallID, e.DueAt.Sub(began).Round(time.Second))
			if _, err := tx.ExecContext(ctx, `INSERT INTO orders (id) VALUES (?)`, id); err != nil {
				return err
			}
			if e.ServiceCallID == "order-1" {
				must(b, timers.ScheduleTx(ctx, tx, in("order-1-reminder", time.Minute)))
			}
			switch tries {
			case 1:
				return errors.New("not yet")
			case 2:
				panic("no")
			}
			return nil
		}, app.OnDueOptions{MinDelay: time.Second, MaxDelay: time.Second}))
		timers = a.Timers()
		must(b, timers.Schedule(b.Context(), in("order-1", time.Second)))
		b.wait(10 * time.Minute)
		var ids string
		must(b, b.store.DB().QueryRowContext(b.Context(), `SELECT group_concat(id, ', ') FROM orders`).Scan(&ids))
		if tries != 4 || !strings.HasPrefix(ids, "order-1 at 1s, order-1-reminder at 1m") || strings.Count(ids, ",") != 1 {
			b.Errorf("%d tries, %q", tries, ids)
		}
		if e, err := timers.Get(b.Context(), keyOf("order-1-reminder")); err != nil || e.ReachedAt.Sub(e.DueAt) > 10*time.Millisecond || b.stats().Outbox != 0 {
			b.Errorf("%+v, %v: want it on time, of %+v", e, err, b.stats())
		}
		if failures := counters.HandlerFailures()[""]; failures != 2 {
			b.Errorf("%d failures are counted, want 2", failures)
		}
	})
}

// TestStopWaitsForTheHandler stops while a handler is at work that schedules at its
// end, and one that waits for its context.
func TestStopWaitsForTheHandler(t *testing.T) {
	inBubble(t, func(b *bench) {
		ends := make(chan error, 2)
		a, stop := b.serve(app.Options{DrainTimeout: 5 * time.Second}, func(timers *app.Timers) {
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
		must(b, a.Timers().Schedule(b.Context(), in("slow", 0)))
		time.Sleep(30 * time.Second)
		for _, c := range a.Checks(b.Context()) {
			if c.Red {
				b.Errorf("a handler is at work, which is no reason to worry: %+v", c)
			}
		}
		must(b, a.Timers().Schedule(b.Context(), in("order-1", 0)))
		time.Sleep(time.Second)
		began := time.Now()
		stop()
		if took := time.Since(began); took < 5*time.Second || took > 7*time.Second {
			b.Errorf("the stop took %v, want 5s", took)
		}
		must(b, <-ends)
		if s := b.stats(); s.Outbox != 1 || s.Scheduled != 1 {
			b.Errorf("%+v: want the event of the slow one, and the next timer", s)
		}
		b.program(app.Options{}) // the next start hands it over at once
		if e := <-b.due; e.Key != keyOf("slow") || time.Since(began) > 10*time.Second {
			b.Errorf("%s after %v", e.Key, time.Since(began))
		}
	})
}

// TestWithABrokerAndOnDueEventsGoToTheHandlerOnly schedules over the broker.
func TestWithABrokerAndOnDueEventsGoToTheHandlerOnly(t *testing.T) {
	onBrokers(t, func(b *bench) {
		b.program(app.Options{})
		b.schedule("call-1", time.Now().Add(time.Minute))
		if e := <-b.due; e.ServiceCallID != "call-1" || e.Lateness() != 0 {
			b.Errorf("%+v", e)
		}
		b.quietFor(time.Hour)
	})
}

// TestAHandlerWaitsForTheOnlyWriter: the wait for its transaction is no attempt, and takes
// none of its time.
func TestAHandlerWaitsForTheOnlyWriter(t *testing.T) {
	for name, c := range map[string]struct {
		takes  time.Duration // of the minute that each has
		first  time.Duration
		parked int64
	}{
		"while another keeps it for all its time":  {0, time.Hour, 1},
		"while each needs it for most of its time": {40 * time.Second, 40 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				a, _ := b.serve(app.Options{PollingInterval: time.Hour}, handleTx(func(ctx context.Context, _ *sql.Tx, e timer.DueTimeReached) error {
					takes := c.takes
					if e.ServiceCallID == "first" {
						takes = c.first
					}
					select {
					case <-time.After(takes):
						b.due <- e
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}, app.OnDueOptions{Attempts: 1, Timeout: time.Minute}))
				must(b, a.Timers().Schedule(b.Context(), in("first", 0), in("order-1", 0), in("order-2", 0)))
				b.wait(4 * time.Minute)
				if s := b.stats(); s.Outbox != 0 || s.Parked != c.parked || len(b.due) != int(3-c.parked) {
					b.Errorf("%d handled, %+v: want only those parked that failed", len(b.due), s)
				}
			})
		})
	}
}

// TestAHandlerWithATransactionCannotWriteBesideIt has a handler schedule, cancel and
// begin another transaction, all of which would wait for its own on SQLite.
func TestAHandlerWithATransactionCannotWriteBesideIt(t *testing.T) {
	inBubble(t, func(b *bench) {
		began := time.Now()
		var errs []error
		var timers *app.Timers
		a, _ := b.serve(app.Options{}, handleTx(func(ctx context.Context, tx *sql.Tx, e timer.DueTimeReached) error {
			errs = append(errs, timers.Schedule(ctx, in("order-2", time.Hour)), timers.Cancel(ctx, keyOf("order-2")), timers.Tx(ctx, func(*sql.Tx) error { return nil }))
			b.due <- e
			return timers.ScheduleTx(ctx, tx, in("order-3", time.Hour))
		}, app.OnDueOptions{}))
		timers = a.Timers()
		must(b, timers.Schedule(b.Context(), in("order-1", 0)))
		<-b.due
		synctest.Wait()
		if took := time.Since(began); took > time.Second {
			b.Errorf("the handler took %v", took)
		}
		for i, err := range errs {
			if err == nil || !strings.Contains(err.Error(), "ScheduleTx") || errors.Is(err, timer.ErrInvalid) {
				b.Errorf("%d: %v, want one that says what to call instead", i, err)
			}
		}
		_, err := timers.Get(b.Context(), keyOf("order-3"))
		must(b, err)
	})
}

// TestOnDueIsCalledBeforeTheStart, and without it events would have nowhere to go.
func TestOnDueIsCalledBeforeTheStart(t *testing.T) {
	inBubble(t, func(b *bench) {
		if err := b.app(b.store, app.Options{}).Run(b.Context()); err == nil || !strings.Contains(err.Error(), "OnDue") {
			b.Errorf("Run: %v, want an error that names OnDue", err)
		}
		a, _ := b.serve(app.Options{}, b.handle("", app.OnDueOptions{}), b.handle("order-", app.OnDueOptions{}))
		defer func() {
			if recover() == nil {
				b.Error("OnDue after the start does not panic")
			}
		}()
		b.handle("invoice-", app.OnDueOptions{})(a.Timers())
	})
}

// TestTheTraceOfARequestReachesTheHandler has a host with spans of its own, and no
// tracing of the app.
func TestTheTraceOfARequestReachesTheHandler(t *testing.T) {
	inBubble(t, func(b *bench) {
		request := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
		handled := make(chan trace.SpanContext, 1)
		a, _ := b.serve(app.Options{}, func(timers *app.Timers) {
			timers.OnDue("", func(ctx context.Context, _ timer.DueTimeReached) error {
				handled <- trace.SpanContextFromContext(ctx)
				return nil
			}, app.OnDueOptions{})
		})
		must(b, a.Timers().Schedule(trace.ContextWithSpanContext(b.Context(), request), in("order-1", time.Hour)))
		if got := <-handled; got.TraceID() != request.TraceID() || got.SpanID() != request.SpanID() || !got.IsRemote() {
			b.Errorf("the handler is in %v of %v, want %v of %v", got.SpanID(), got.TraceID(), request.SpanID(), request.TraceID())
		}
	})
}

// expiringIn is a timer that is due and expires after some time.
func expiringIn(id string, due, expires time.Duration) client.Timer {
	t := in(id, due)
	t.ExpiresAt = time.Now().Add(expires)
	return t
}

// TestTimersThatExpireWhileFiringIsPaused has a handler that asks for them, one with a
// transaction that asks for them, and one that does not ask.
func TestTimersThatExpireWhileFiringIsPaused(t *testing.T) {
	inBubble(t, func(b *bench) {
		counters := new(app.Counters)
		a, _ := b.serve(app.Options{Counters: counters}, b.handle("asks-", app.OnDueOptions{Expired: true}), b.handle("asks-not-", app.OnDueOptions{}), func(timers *app.Timers) {
			timers.OnDueTx("tx-", func(_ context.Context, _ *sql.Tx, e timer.DueTimeReached) error { b.due <- e; return nil }, app.OnDueOptions{Expired: true})
		})
		timers := a.Timers()
		must(b, a.Pause(b.Context(), timer.Pause{By: "test"}))
		want := make(map[timer.ServiceCallID]timer.State)
		for _, prefix := range []string{"asks-", "asks-not-", "tx-"} {
			must(b, timers.Schedule(b.Context(), expiringIn(prefix+"expires", time.Second, time.Minute), expiringIn(prefix+"lasts", time.Second, 2*time.Minute), in(prefix+"never", time.Second)))
			want[timer.ServiceCallID(prefix+"lasts")], want[timer.ServiceCallID(prefix+"never")] = timer.Reached, timer.Reached
		}
		want["asks-expires"], want["tx-expires"] = timer.Expired, timer.Expired
		time.Sleep(time.Minute)
		if e, err := timers.Get(b.Context(), keyOf("asks-expires")); err != nil || e.State != timer.Scheduled {
			b.Errorf("while firing is paused: %+v, %v", e, err)
		}
		resumed := timer.RoundDown(time.Now())
		must(b, a.Resume(b.Context(), ""))
		b.wait(10 * time.Second)
		close(b.due)
		got := make(map[timer.ServiceCallID]timer.State)
		for e := range b.due {
			got[e.ServiceCallID] = e.State()
			if e.ReachedAt.Before(resumed) || e.ExpiresAt.IsZero() != strings.HasSuffix(string(e.ServiceCallID), "never") {
				b.Errorf("%+v", e)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			b.Errorf("handled %v, want %v", got, want)
		}
		if s := b.stats(); s.Outbox != 0 || s.Parked != 0 || s.Reached != 6 || s.Expired != 3 {
			b.Errorf("%+v", s)
		}
		if counters.Reached() != 6 || counters.Expired() != 3 || counters.Lateness().Events != 6 {
			b.Errorf("%d reached, %d expired, %d are late", counters.Reached(), counters.Expired(), counters.Lateness().Events)
		}
		if err := timers.Schedule(b.Context(), in("tx-expires", time.Hour)); !errors.Is(err, timer.ErrExpired) {
			b.Errorf("scheduled again: %v", err)
		}
		if err := timers.Cancel(b.Context(), keyOf("tx-expires")); !errors.Is(err, timer.ErrExpired) {
			b.Errorf("canceled: %v", err)
		}
		n, err := timers.CancelWhere(b.Context(), "acme", timer.Selection{Calls: []timer.ServiceCallID{"tx-expires", "tx-lasts"}})
		if err != nil || n != (timer.CancelCounts{Reached: 1, Expired: 1}) {
			b.Errorf("canceled %+v, %v", n, err)
		}
	})
}

// TestWhatExpiresTakesNoFireRate has more timers expire than may fire in half an hour.
func TestWhatExpiresTakesNoFireRate(t *testing.T) {
	inBubble(t, func(b *bench) {
		timers := b.program(app.Options{Quotas: limiter(b, "acme", quota.Limits{Fire: quota.Rate{PerSecond: 0.1, Burst: 1}})})
		all := []client.Timer{in("fires", -time.Second), in("waits", -time.Millisecond)}
		for i := range 200 {
			all = append(all, expiringIn(name("expires-", i), -time.Hour, -time.Minute))
		}
		began := time.Now()
		must(b, timers.Schedule(b.Context(), all...))
		if e := <-b.due; e.ServiceCallID != "fires" || time.Since(began) > time.Second {
			b.Errorf("%s after %v", e.ServiceCallID, time.Since(began))
		}
		if got := b.stats().Counts; got != (timer.Counts{Scheduled: 1, Reached: 1, Expired: 200}) {
			b.Errorf("%+v", got)
		}
		if e := <-b.due; e.ServiceCallID != "waits" || time.Since(began) < 9*time.Second {
			b.Errorf("%s after %v", e.ServiceCallID, time.Since(began))
		}
	})
}

// TestAnEventThatItsHandlerWantsLaterIsNoFailure has both kinds of handlers put an event off. The
// process ends meanwhile, and the next one starts early.
func TestAnEventThatItsHandlerWantsLaterIsNoFailure(t *testing.T) {
	inBubble(t, func(b *bench) {
		_, err := b.store.DB().ExecContext(b.Context(), `CREATE TABLE notes (text TEXT) STRICT`)
		must(b, err)
		began := time.Now()
		var mu sync.Mutex
		calls := make(map[timer.ServiceCallID][]time.Duration)
		late := func(e timer.DueTimeReached) error {
			mu.Lock()
			defer mu.Unlock()
			calls[e.ServiceCallID] = append(calls[e.ServiceCallID], time.Since(began).Round(time.Second))
			if len(calls[e.ServiceCallID]) == 1 {
				return fmt.Errorf("the shop is closed: %w", timer.Later(10*time.Minute))
			}
			return nil
		}
		counters := new(app.Counters)
		handlers := func(timers *app.Timers) {
			timers.OnDue("a-", func(_ context.Context, e timer.DueTimeReached) error { return late(e) }, app.OnDueOptions{Attempts: 1})
			timers.OnDueTx("b-", func(ctx context.Context, tx *sql.Tx, e timer.DueTimeReached) error {
				_, err := tx.ExecContext(ctx, `INSERT INTO notes (text) VALUES ('seen')`)
				must(b, err)
				return late(e)
			}, app.OnDueOptions{Attempts: 1})
		}
		opt := app.Options{PollingInterval: time.Hour, Counters: counters}
		a, stop := b.serve(opt, handlers)
		must(b, a.Timers().Schedule(b.Context(), in("a-1", time.Second), in("b-1", time.Second)))
		b.wait(9 * time.Minute)
		for _, c := range a.Checks(b.Context()) {
			if c.Red {
				b.Errorf("%+v", c)
			}
		}
		if s := b.stats(); s.Outbox != 2 || s.Parked != 0 || !s.Oldest.IsZero() {
			b.Errorf("%+v: want two events that are not old", s)
		}
		stop()
		_, _ = b.serve(opt, handlers)
		b.wait(2 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		for call, at := range calls {
			if len(at) != 2 || at[1]-at[0] != 10*time.Minute {
				b.Errorf("%s was handled at %v", call, at)
			}
		}
		var seen int
		must(b, b.store.DB().QueryRowContext(b.Context(), `SELECT count(*) FROM notes`).Scan(&seen))
		if s := b.stats(); s.Outbox != 0 || len(calls) != 2 || seen != 1 {
			b.Errorf("%+v, calls %v, %d notes", s, calls, seen)
		}
		for prefix, n := range counters.HandlerFailures() {
			if n != 0 {
				b.Errorf("%d failures of %q", n, prefix)
			}
		}
		if l := counters.Lateness(); counters.Forwarded() != 2 || l.Events != 0 || l.Missed != 0 {
			b.Errorf("%d delivered, %+v: want none that counts as late", counters.Forwarded(), l)
		}
	})
}
