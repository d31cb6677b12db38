package app_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// TestTimersOfATransactionShareItsFate has a program book timers in transactions, and cancel
// one.
func TestTimersOfATransactionShareItsFate(t *testing.T) {
	inBubble(t, func(b *bench) {
		timers := b.program(app.Options{PollingInterval: time.Hour})
		no := errors.New("out of stock")
		book := func(id string, after time.Duration, end error) error {
			return timers.Tx(b.Context(), func(tx *sql.Tx) error {
				return errors.Join(timers.ScheduleTx(b.Context(), tx, in(id, after)), end)
			})
		}
		began := time.Now()
		if err := book("order-1", time.Minute, no); !errors.Is(err, no) {
			b.Errorf("got %v, want the error of the function", err)
		}
		if _, err := timers.Get(b.Context(), keyOf("order-1")); !errors.Is(err, timer.ErrNotFound) {
			b.Errorf("after the rollback: %v, want ErrNotFound", err)
		}
		must(b, book("order-1", 2*time.Minute, nil))
		b.handled("order-1", began.Add(2*time.Minute)) // to the millisecond, though the next poll was an hour away

		must(b, book("order-2", time.Minute, nil))
		b.wait(time.Second)
		must(b, timers.Tx(b.Context(), func(tx *sql.Tx) error { return timers.CancelTx(b.Context(), tx, keyOf("order-2")) }))
		b.wait(time.Hour)
		if len(b.due) != 0 {
			b.Error("a timer fired that was canceled")
		}
	})
}

func TestTimersSayWhatIsWrong(t *testing.T) {
	inBubble(t, func(b *bench) {
		limits, err := quota.New(quota.Config{Tenants: map[timer.TenantID]quota.Limits{"small": {Live: 2}, "near": {Horizon: time.Hour}}}, timer.ClockFunc(time.Now), quota.Options{})
		must(b, err)
		counters := new(app.Counters)
		timers := b.program(app.Options{Quotas: limits, Counters: counters})
		first := in("order-1", time.Hour)
		first.Version = b.version()
		must(b, timers.Schedule(b.Context(), first, in("fired", 0)))
		<-b.due
		older, wrongData, ahead := first, first, first
		older.Version.TimestampMS--
		wrongData.Data = json.RawMessage(`{"a":1,"a":2}`)
		ahead.Version.TimestampMS += (25 * time.Hour).Milliseconds()
		of := func(tenant timer.TenantID, id timer.ServiceCallID, after time.Duration) client.Timer {
			return client.Timer{TenantID: tenant, ServiceCallID: id, After: after}
		}
		small := func(id timer.ServiceCallID) client.Timer { return of("small", id, time.Hour) }
		for _, tt := range []struct {
			name   string
			timers []client.Timer
			want   error
			says   string
		}{
			{"the same version again is accepted", []client.Timer{first}, nil, ""},
			{"an older version is stale", []client.Timer{older}, timer.ErrStale, "acme.order-1"},
			{"one that has fired is reached", []client.Timer{in("fired", time.Hour)}, timer.ErrReached, "acme.fired"},
			{"a tenant that is none", []client.Timer{of("a b", "x", 0)}, timer.ErrInvalid, "tenantId"},
			{"data that are not JSON", []client.Timer{wrongData}, timer.ErrInvalid, "data"},
			{"a version from the future", []client.Timer{ahead}, timer.ErrInvalid, "timestampMs"},
			{"beyond the horizon", []client.Timer{in("far", 11*365*24*time.Hour)}, timer.ErrInvalid, "horizon of"},
			{"beyond the horizon of the tenant", []client.Timer{of("near", "x", 2*time.Hour)}, timer.ErrInvalid, "horizon of 1h"},
			{"one that is invalid keeps the others out", []client.Timer{in("good", time.Hour), {TenantID: "acme"}}, timer.ErrInvalid, "serviceCallId"},
			{"one that is stale does not", []client.Timer{in("good", time.Hour), older}, timer.ErrStale, "acme.order-1"},
			{"too many at once", []client.Timer{small("1"), small("2"), small("3")}, timer.ErrOverQuota, "small"},
			{"as many as may be", []client.Timer{small("1"), small("2")}, nil, ""},
			{"moved is not one more", []client.Timer{small("1")}, nil, ""},
			{"one more", []client.Timer{small("3")}, timer.ErrOverQuota, "small.3"},
			{"one of two tenants over its quota", []client.Timer{in("not", time.Hour), small("3")}, timer.ErrOverQuota, "small.3"},
		} {
			before := b.stats()
			ways := map[string]error{"direct": timers.Schedule(b.Context(), tt.timers...)}
			if !errors.Is(tt.want, timer.ErrStale) || len(tt.timers) == 1 { // in a transaction the error of the function would roll back
				ways["in a transaction"] = timers.Tx(b.Context(), func(tx *sql.Tx) error { return timers.ScheduleTx(b.Context(), tx, tt.timers...) })
			}
			for way, err := range ways {
				if !errors.Is(err, tt.want) || err != nil && !strings.Contains(err.Error(), tt.says) {
					b.Errorf("%s, %s: %v, want %v", tt.name, way, err, tt.want)
				}
			}
			if after := b.stats(); errors.Is(tt.want, timer.ErrInvalid) && before != after {
				b.Errorf("%s: %+v became %+v", tt.name, before, after)
			}
		}
		if _, err := timers.Get(b.Context(), keyOf("good")); err != nil {
			b.Errorf("the one next to a stale one: %v", err)
		}
		if _, err := timers.Get(b.Context(), keyOf("not")); !errors.Is(err, timer.ErrNotFound) {
			b.Errorf("the one next to one over its quota: %v", err)
		}
		if err := timers.Cancel(b.Context(), keyOf("fired")); !errors.Is(err, timer.ErrReached) {
			b.Errorf("cancel a timer that has fired: %v", err)
		}
		must(b, timers.Cancel(b.Context(), timer.Key{TenantID: "small", ServiceCallID: "1"}))
		if err := timers.Schedule(b.Context(), small("3")); err != nil {
			b.Errorf("after one was canceled: %v", err)
		}
		if n := counters.Commands()[handlers.Result{Type: "ScheduleTimer", Outcome: timer.WasReached.String()}]; n != 1 {
			b.Errorf("%d commands were counted that came too late, want the one that was committed: %v", n, counters.Commands())
		}
	})
}

// TestAnOpenTransactionDoesNotWaitForThoseThatWaitForIt has a tenant at its quota
// schedule while its own transaction has the write lock.
func TestAnOpenTransactionDoesNotWaitForThoseThatWaitForIt(t *testing.T) {
	t.Parallel()
	s := unsynced(t, filepath.Join(t.TempDir(), "host.db"))
	defer func() { must(t, errors.Join(s.Close(), s.DB().Close())) }()
	onItsWay := make(chan struct{})
	begin := sync.OnceFunc(func() { close(onItsWay) })
	a, err := app.New(&fault.Store{Full: s, Decide: func(op string) fault.Kind {
		if op == "schedule" {
			begin()
		}
		return fault.None
	}}, nil, quiet, app.Options{Quotas: limiter(t, "acme", quota.Limits{Live: 1})})
	must(t, err)
	timers, concurrent := a.Timers(), make(chan error, 1)
	err = timers.Tx(t.Context(), func(tx *sql.Tx) error {
		go func() { concurrent <- timers.Schedule(t.Context(), in("order-1", time.Hour)) }()
		<-onItsWay
		return timers.ScheduleTx(t.Context(), tx, in("order-2", time.Hour))
	})
	if !errors.Is(err, timer.ErrOverQuota) {
		t.Errorf("%v, want ErrOverQuota", err)
	}
	must(t, <-concurrent)
}

// TestATransactionCannotPassTheQuotaByItself schedules one by one what no count sees
// before the commit.
func TestATransactionCannotPassTheQuotaByItself(t *testing.T) {
	inBubble(t, func(b *bench) {
		timers := b.program(app.Options{Quotas: limiter(b, "acme", quota.Limits{Live: 2})})
		for range 2 { // committed, and in the next transaction
			must(b, timers.Tx(b.Context(), func(tx *sql.Tx) error {
				must(b, timers.ScheduleTx(b.Context(), tx, in("1", time.Hour)))
				must(b, timers.ScheduleTx(b.Context(), tx, in("2", time.Hour)))
				if err := timers.ScheduleTx(b.Context(), tx, in("3", time.Hour)); !errors.Is(err, timer.ErrOverQuota) {
					b.Errorf("a third one: %v", err)
				}
				return nil
			}))
			if n := b.stats().Scheduled; n != 2 {
				b.Errorf("%d timers, want 2", n)
			}
		}
	})
}

// TestScheduleInsideOfTxEndsAtItsDeadline instead of waiting for the transaction, which
// waits for it. What it asked for is written afterwards.
func TestScheduleInsideOfTxEndsAtItsDeadline(t *testing.T) {
	inBubble(t, func(b *bench) {
		timers := b.program(app.Options{})
		began := time.Now()
		must(b, timers.Tx(b.Context(), func(*sql.Tx) error {
			ctx, cancel := context.WithTimeout(b.Context(), 2*time.Second)
			defer cancel()
			if err := timers.Schedule(ctx, in("order-1", time.Minute)); !errors.Is(err, context.DeadlineExceeded) {
				b.Error(err)
			}
			return nil
		}))
		if took := time.Since(began); took != 2*time.Second {
			b.Errorf("it took %v", took)
		}
		b.handled("order-1", began.Add(time.Minute))
	})
}

// TestTimersOfACallThatFailedAreOnTime if they were written all the same: after the end of a
// context, and by a transaction whose commit is reported as failed.
func TestTimersOfACallThatFailedAreOnTime(t *testing.T) {
	inBubble(t, func(b *bench) {
		s := &fault.Store{Full: b.store, Decide: func(op string) fault.Kind {
			if op == "transact" {
				return fault.After
			}
			return fault.None
		}}
		a := b.app(s, app.Options{})
		timers := a.Timers()
		b.handle("", app.OnDueOptions{})(timers)
		b.run(a)
		began := time.Now()
		err := timers.Tx(b.Context(), func(tx *sql.Tx) error {
			ctx, cancel := context.WithTimeout(b.Context(), time.Second)
			defer cancel()
			if err := timers.Schedule(ctx, in("order-1", 2*time.Second)); !errors.Is(err, context.DeadlineExceeded) {
				b.Error(err)
			}
			return timers.ScheduleTx(b.Context(), tx, in("order-2", 2*time.Second))
		})
		if err == nil {
			b.Error("the commit is not reported as failed")
		}
		b.handled("order-1", began.Add(2*time.Second))
		b.handled("order-2", began.Add(3*time.Second))
	})
}

func TestManyTimersAreCanceledAtOnce(t *testing.T) {
	inBubble(t, func(b *bench) {
		timers := b.program(app.Options{Quotas: limiter(b, "acme", quota.Limits{Live: 5})})
		related, newer := in("invoice-1", time.Hour), in("order-1.newer", time.Hour)
		related.CorrelationID = "order-1"
		newer.Version = timer.Version{TimestampMS: time.Now().Add(time.Hour).UnixMilli(), CommandID: "newer"}
		must(b, timers.Schedule(b.Context(), in("order-1.pay", time.Hour), in("order-1.ship", time.Hour), in("order-10", time.Hour), related, newer))
		began := time.Now()
		n, err := timers.CancelWhere(b.Context(), "acme", timer.Selection{Prefix: "order-1."})
		if want := (timer.CancelCounts{Canceled: 3}); err != nil || n != want {
			b.Errorf("%+v, %v, want %+v", n, err, want)
		}
		if err := timers.Schedule(b.Context(), in("order-2", 2*time.Hour), in("order-3", 3*time.Hour)); err != nil {
			b.Errorf("a canceled timer does not count any more: %v", err)
		}
		must(b, timers.Tx(b.Context(), func(tx *sql.Tx) error {
			n, err := timers.CancelWhereTx(b.Context(), tx, "acme", timer.Selection{CorrelationID: "order-1"})
			if n.Canceled != 1 {
				b.Errorf("%+v by correlation", n)
			}
			return err
		}))
		must(b, timers.Tx(b.Context(), func(tx *sql.Tx) error { // which sees its own timers
			must(b, timers.ScheduleTx(b.Context(), tx, in("order-4.pay", time.Hour)))
			n, err := timers.CancelWhereTx(b.Context(), tx, "acme", timer.Selection{Prefix: "order-4."})
			if n.Canceled != 1 {
				b.Errorf("%+v of its own", n)
			}
			return err
		}))
		if _, err := timers.CancelWhere(b.Context(), "acme", timer.Selection{}); !errors.Is(err, timer.ErrInvalid) {
			b.Errorf("nothing is selected: %v", err)
		}
		b.handled("order-10", began.Add(time.Hour))
		b.handled("order-2", began.Add(2*time.Hour))
	})
}

// TestATransactionChangesTenThousandAtMost: more would otherwise hold the database for long.
func TestATransactionChangesTenThousandAtMost(t *testing.T) {
	inBubble(t, func(b *bench) {
		timers := b.program(app.Options{})
		put(b, b.store, "acme", time.Now().Add(time.Hour), calls(11_000)...)
		all, later := timer.Selection{Prefix: "call-"}, timer.Move{By: time.Hour}
		for _, change := range []func(*sql.Tx) error{
			func(tx *sql.Tx) error {
				_, err := timers.RescheduleWhereTx(b.Context(), tx, "acme", all, later)
				return err
			},
			func(tx *sql.Tx) error { _, err := timers.CancelWhereTx(b.Context(), tx, "acme", all); return err },
		} {
			if err := timers.Tx(b.Context(), change); !errors.Is(err, timer.ErrInvalid) || !strings.Contains(err.Error(), "more than 10000") {
				b.Errorf("in a transaction: %v", err)
			}
		}
		if n, err := timers.RescheduleWhere(b.Context(), "acme", all, later); err != nil || n.Changed != 11_000 {
			b.Errorf("moved: %+v, %v", n, err)
		}
		if n, err := timers.CancelWhere(b.Context(), "acme", all); err != nil || n != (timer.CancelCounts{Canceled: 11_000}) {
			b.Errorf("canceled: %+v, %v", n, err)
		}
	})
}

// TestScheduleInATransactionOfItsCallerSaysSo calls what would wait for its own transaction.
func TestScheduleInATransactionOfItsCallerSaysSo(t *testing.T) {
	inBubble(t, func(b *bench) {
		timers := b.program(app.Options{})
		for name, call := range map[string]func(context.Context) error{
			"Schedule": func(ctx context.Context) error { return timers.Schedule(ctx, in("order-1", time.Hour)) },
			"Cancel":   func(ctx context.Context) error { return timers.Cancel(ctx, keyOf("order-1")) },
			"CancelWhere": func(ctx context.Context) error {
				_, err := timers.CancelWhere(ctx, "acme", timer.Selection{Calls: []timer.ServiceCallID{"order-1"}})
				return err
			},
			"Tx": func(ctx context.Context) error { return timers.Tx(ctx, func(*sql.Tx) error { return nil }) },
		} {
			err := timers.Tx(b.Context(), func(*sql.Tx) error {
				ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
				defer cancel()
				return call(ctx)
			})
			if err == nil || !strings.Contains(err.Error(), "if the caller has a transaction open") || !strings.Contains(err.Error(), "ScheduleTx or CancelTx") {
				b.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestTwoInstancesWithClocksApart has one schedule what another one cancels, whose clock is
// behind.
func TestTwoInstancesWithClocksApart(t *testing.T) {
	inBubble(t, func(b *bench) {
		at := func(ahead time.Duration) *app.Timers {
			return b.app(b.store, app.Options{Clock: timer.ClockFunc(func() time.Time { return time.Now().Add(ahead) })}).Timers()
		}
		ahead, behind := at(300*time.Millisecond), at(0)
		must(b, ahead.Schedule(b.Context(), in("order-1", time.Hour), in("order-2", time.Hour)))
		must(b, behind.Schedule(b.Context(), in("order-1", 2*time.Hour)))
		must(b, behind.Cancel(b.Context(), keyOf("order-1")))
		if n, err := behind.CancelWhere(b.Context(), "acme", timer.Selection{Prefix: "order-"}); err != nil || n.Canceled != 1 {
			b.Errorf("cancel many: %+v, %v", n, err)
		}
		if got := b.stats().Counts; got != (timer.Counts{Canceled: 2}) {
			b.Errorf("%+v, want both canceled", got)
		}
		old := in("order-3", time.Hour)
		old.Version = timer.Version{TimestampMS: time.Now().Add(-time.Minute).UnixMilli(), CommandID: "old"}
		must(b, behind.Schedule(b.Context(), in("order-3", time.Hour)))
		if err := behind.Schedule(b.Context(), old); !errors.Is(err, timer.ErrStale) {
			b.Errorf("a version that was given is what decides: %v", err)
		}
	})
}

// TestForeignCommitsAreOnTime has a host commit what it has scheduled in transactions of its
// own, before the due time and after it, and roll one back.
func TestForeignCommitsAreOnTime(t *testing.T) {
	inBubble(t, func(b *bench) {
		var polls atomic.Int64
		timers := b.program(app.Options{PollingInterval: 5 * time.Second, Hooks: []app.Hooks{{Polled: func(time.Duration, error) { polls.Add(1) }}}})
		begin := func(id string, after time.Duration) *sql.Tx {
			tx, err := b.store.DB().BeginTx(b.Context(), nil)
			must(b, err)
			must(b, timers.ScheduleTx(b.Context(), tx, in(id, after)))
			return tx
		}
		for i, open := range []time.Duration{0, 500 * time.Millisecond, 3 * time.Second} {
			id, due := fmt.Sprint("order-", i), time.Now().Add(time.Second)
			tx := begin(id, time.Second)
			b.wait(open)
			must(b, tx.Commit())
			if due.Before(time.Now()) {
				due = time.Now()
			}
			e := <-b.due
			if late := time.Since(due); e.Key != keyOf(id) || late < 0 || late > 20*time.Millisecond {
				b.Errorf("%s came %v after the time of %s", e.Key, late, id)
			}
		}
		b.wait(10 * time.Second)
		before := polls.Load()
		must(b, begin("order-9", 0).Rollback())
		b.wait(20 * time.Second)
		if n := polls.Load() - before; n < 100 || n > 600 {
			b.Errorf("%d polls in the 20 s after a rollback, want some for 5 s, and few afterwards", n)
		}
	})
}
