package app_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// A monolith is a program that the app runs in, in a bubble, on nothing but its
// database.
type monolith struct {
	t     *testing.T
	store *sqlite.Store
	due   chan timer.DueTimeReached // what OnDue was called with
}

func inMonolith(t *testing.T, test func(t *testing.T, m *monolith)) {
	t.Helper()
	t.Parallel()
	if _, err := migrated(); err != nil { // not in a bubble, which its goroutines would outlive
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(48 * time.Hour) // bubbles begin with the year 2000, before which nothing may be due
		m := &monolith{t: t, due: make(chan timer.DueTimeReached, 100), store: unsynced(t, filepath.Join(t.TempDir(), "host.db"))}
		t.Cleanup(func() { closeUnsynced(t, m.store) })
		if _, err := m.store.DB().ExecContext(t.Context(), `CREATE TABLE orders (id TEXT PRIMARY KEY, state TEXT NOT NULL DEFAULT 'booked') STRICT`); err != nil {
			t.Fatal(err)
		}
		test(t, m)
	})
}

// run runs an app without a broker, whose events go to due, until stop is called.
func (m *monolith) run(opt app.Options) (timers *app.Timers, stop func()) {
	return m.runWith(opt, func(timers *app.Timers) {
		timers.OnDue("", func(_ context.Context, e timer.DueTimeReached) error { m.due <- e; return nil }, app.OnDueOptions{})
	})
}

func (m *monolith) runWith(opt app.Options, register func(*app.Timers)) (timers *app.Timers, stop func()) {
	m.t.Helper()
	a, err := app.New(m.store, nil, quiet, opt)
	if err != nil {
		m.t.Fatal(err)
	}
	register(a.Timers())
	stop = running(m.t, "app", a.Run)
	<-a.Running()
	synctest.Wait()
	return a.Timers(), stop
}

func keyOf(id string) timer.Key {
	return timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(id)}
}

func in(id string, after time.Duration) client.Timer {
	return client.Timer{TenantID: "acme", ServiceCallID: timer.ServiceCallID(id), DueAt: time.Now().Add(after)}
}

// wants checks that a timer fires at a time, and nothing else before.
func (m *monolith) wants(id string, at time.Time) {
	m.t.Helper()
	e := <-m.due
	if e.Key != keyOf(id) || !time.Now().Equal(at) {
		m.t.Errorf("%s came at %v, want %s at %v", e.Key, time.Now(), keyOf(id), at)
	}
}

func TestTimersFireOnTimeWithWhatTheyWereGiven(t *testing.T) {
	inMonolith(t, func(t *testing.T, m *monolith) {
		timers, _ := m.run(app.Options{PollingInterval: time.Hour})
		began := time.Now()
		with := in("order-2", 0)
		with.DueAt, with.CorrelationID, with.Data = began.Add(3*time.Hour), "trace-1", json.RawMessage(`{"n": 1}`)
		if err := timers.Schedule(t.Context(), in("order-1", 1500*time.Millisecond), with); err != nil {
			t.Fatal(err)
		}
		m.wants("order-1", began.Add(1500*time.Millisecond))
		e := <-m.due
		if e.Key != keyOf("order-2") || !time.Now().Equal(with.DueAt) || !e.DueAt.Equal(with.DueAt) || e.CorrelationID != "trace-1" || e.Data != `{"n": 1}` || e.ID == "" || !e.ReachedAt.Equal(with.DueAt) {
			t.Errorf("at %v: %+v", time.Now(), e)
		}
		if got, err := timers.Get(t.Context(), keyOf("order-2")); err != nil || got.State != timer.Reached {
			t.Errorf("%+v, %v", got, err)
		}
		if got, err := timers.Counts(t.Context(), "acme"); err != nil || got.Reached != 2 {
			t.Errorf("%+v, %v", got, err)
		}
		if got, err := timers.List(t.Context(), timer.Filter{TenantID: "acme"}); err != nil || len(got.Entries) != 2 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// TestTheTraceOfARequestReachesTheHandler has a host with spans of its own, and no
// tracing of the app.
func TestTheTraceOfARequestReachesTheHandler(t *testing.T) {
	inMonolith(t, func(t *testing.T, m *monolith) {
		request := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
		handled := make(chan trace.SpanContext, 1)
		timers, _ := m.runWith(app.Options{}, func(timers *app.Timers) {
			timers.OnDue("", func(ctx context.Context, _ timer.DueTimeReached) error {
				handled <- trace.SpanContextFromContext(ctx)
				return nil
			}, app.OnDueOptions{})
		})
		if err := timers.Schedule(trace.ContextWithSpanContext(t.Context(), request), in("order-1", time.Hour)); err != nil {
			t.Fatal(err)
		}
		if got := <-handled; got.TraceID() != request.TraceID() || got.SpanID() != request.SpanID() || !got.IsRemote() {
			t.Errorf("the handler is in %v of %v, want %v of %v", got.SpanID(), got.TraceID(), request.SpanID(), request.TraceID())
		}
	})
}

// TestTimersOfATransactionShareItsFate has a program book orders with their timers.
func TestTimersOfATransactionShareItsFate(t *testing.T) {
	inMonolith(t, func(t *testing.T, m *monolith) {
		timers, _ := m.run(app.Options{PollingInterval: time.Hour})
		no := errors.New("out of stock")
		book := func(id string, after time.Duration, end error) error {
			return timers.Tx(t.Context(), func(tx *sql.Tx) error {
				if _, err := tx.ExecContext(t.Context(), `INSERT INTO orders (id) VALUES (?)`, id); err != nil {
					return err
				}
				if err := timers.ScheduleTx(t.Context(), tx, in(id, after)); err != nil {
					return err
				}
				return end
			})
		}
		began := time.Now()
		if err := book("order-1", time.Minute, no); !errors.Is(err, no) {
			t.Errorf("got %v, want the error of the function", err)
		}
		if _, err := timers.Get(t.Context(), keyOf("order-1")); !errors.Is(err, timer.ErrNotFound) {
			t.Errorf("after the rollback: %v, want ErrNotFound", err)
		}
		if err := book("order-1", 2*time.Minute, nil); err != nil {
			t.Fatal(err)
		}
		m.wants("order-1", began.Add(2*time.Minute)) // to the millisecond, though the next poll was an hour away

		if err := book("order-2", time.Minute, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := timers.Tx(t.Context(), func(tx *sql.Tx) error {
			_, err := tx.ExecContext(t.Context(), `DELETE FROM orders WHERE id = 'order-2'`)
			return errors.Join(err, timers.CancelTx(t.Context(), tx, keyOf("order-2")))
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if len(m.due) != 0 {
			t.Error("a timer fired whose order was canceled")
		}
	})
}

func TestTimersSayWhatIsWrong(t *testing.T) {
	inMonolith(t, func(t *testing.T, m *monolith) {
		limits := quota.Config{Tenants: map[timer.TenantID]quota.Limits{"small": {Live: 2}, "near": {Horizon: time.Hour}}}
		limiter, err := quota.New(limits, timer.ClockFunc(time.Now), quota.Options{})
		if err != nil {
			t.Fatal(err)
		}
		counters := new(app.Counters)
		timers, _ := m.run(app.Options{Quotas: limiter, Counters: counters})
		version := timer.Version{TimestampMS: time.Now().UnixMilli(), CommandID: "c-1"}
		first := in("order-1", time.Hour)
		first.Version = version
		if err := timers.Schedule(t.Context(), first, in("fired", 0)); err != nil {
			t.Fatal(err)
		}
		<-m.due
		older, wrongData, ahead := first, first, first
		older.Version.TimestampMS--
		wrongData.Data = json.RawMessage(`{"a":1,"a":2}`)
		ahead.Version.TimestampMS += (25 * time.Hour).Milliseconds()
		small := func(id string) client.Timer {
			return client.Timer{TenantID: "small", ServiceCallID: timer.ServiceCallID(id), After: time.Hour}
		}
		for _, tt := range []struct {
			name   string
			timers []client.Timer
			want   error
			says   string
		}{
			{"the same version again is accepted", []client.Timer{first}, nil, ""},
			{"an older version is stale", []client.Timer{older}, timer.ErrStale, "acme.order-1"},
			{"one that has fired is reached", []client.Timer{in("fired", time.Hour)}, timer.ErrReached, "acme.fired"},
			{"a tenant that is none", []client.Timer{{TenantID: "a b", ServiceCallID: "x"}}, timer.ErrInvalid, "tenantId"},
			{"data that are not JSON", []client.Timer{wrongData}, timer.ErrInvalid, "data"},
			{"a version from the future", []client.Timer{ahead}, timer.ErrInvalid, "timestampMs"},
			{"beyond the horizon", []client.Timer{in("far", 11*365*24*time.Hour)}, timer.ErrInvalid, "horizon of"},
			{"beyond the horizon of the tenant", []client.Timer{{TenantID: "near", ServiceCallID: "x", After: 2 * time.Hour}}, timer.ErrInvalid, "horizon of 1h"},
			{"one that is invalid keeps the others out", []client.Timer{in("good", time.Hour), {TenantID: "acme"}}, timer.ErrInvalid, "serviceCallId"},
			{"one that is stale does not", []client.Timer{in("good", time.Hour), older}, timer.ErrStale, "acme.order-1"},
			{"too many at once", []client.Timer{small("1"), small("2"), small("3")}, timer.ErrOverQuota, "small"},
			{"as many as may be", []client.Timer{small("1"), small("2")}, nil, ""},
			{"moved is not one more", []client.Timer{small("1")}, nil, ""},
			{"one more", []client.Timer{small("3")}, timer.ErrOverQuota, "small.3"},
			{"one of two tenants over its quota", []client.Timer{in("not", time.Hour), small("3")}, timer.ErrOverQuota, "small.3"},
		} {
			before := stats(t, m.store)
			for way, schedule := range map[string]func() error{
				"direct": func() error { return timers.Schedule(t.Context(), tt.timers...) },
				"in a transaction": func() error {
					return timers.Tx(t.Context(), func(tx *sql.Tx) error { return timers.ScheduleTx(t.Context(), tx, tt.timers...) })
				},
			} {
				if tt.name == "one that is stale does not" && way != "direct" {
					continue // the error of the function rolls back
				}
				err := schedule()
				if !errors.Is(err, tt.want) || err != nil && !strings.Contains(err.Error(), tt.says) {
					t.Errorf("%s, %s: %v, want %v", tt.name, way, err, tt.want)
				}
			}
			if after := stats(t, m.store); errors.Is(tt.want, timer.ErrInvalid) && before != after {
				t.Errorf("%s: %+v became %+v", tt.name, before, after)
			}
		}
		if _, err := timers.Get(t.Context(), keyOf("good")); err != nil {
			t.Errorf("the one beside a stale one: %v", err)
		}
		if _, err := timers.Get(t.Context(), keyOf("not")); !errors.Is(err, timer.ErrNotFound) {
			t.Errorf("the one beside one over its quota: %v", err)
		}
		if err := timers.Cancel(t.Context(), keyOf("fired")); !errors.Is(err, timer.ErrReached) {
			t.Errorf("to cancel what has fired: %v", err)
		}
		if err := timers.Cancel(t.Context(), timer.Key{TenantID: "small", ServiceCallID: "1"}); err != nil {
			t.Error(err)
		}
		if err := timers.Schedule(t.Context(), small("3")); err != nil {
			t.Errorf("after one was canceled: %v", err)
		}
		if n := counters.Commands()[handlers.Result{Type: "ScheduleTimer", Outcome: timer.WasReached.String()}]; n != 1 {
			t.Errorf("%d commands were counted that came too late, want the one that was committed: %v", n, counters.Commands())
		}
	})
}

// TestAnOpenTransactionDoesNotWaitForThoseThatWaitForIt has a tenant at its quota
// schedule beside a transaction of its own, which has the write lock.
func TestAnOpenTransactionDoesNotWaitForThoseThatWaitForIt(t *testing.T) {
	t.Parallel()
	s := unsynced(t, filepath.Join(t.TempDir(), "host.db"))
	defer closeUnsynced(t, s)
	limiter, err := quota.New(quota.Config{Default: quota.Limits{Live: 1}}, timer.ClockFunc(time.Now), quota.Options{})
	if err != nil {
		t.Fatal(err)
	}
	onItsWay := make(chan struct{})
	begin := sync.OnceFunc(func() { close(onItsWay) })
	a, err := app.New(&fault.Store{Full: s, Decide: func(op string) fault.Kind {
		if op == "schedule" {
			begin()
		}
		return fault.None
	}}, nil, quiet, app.Options{Quotas: limiter})
	if err != nil {
		t.Fatal(err)
	}
	timers, beside := a.Timers(), make(chan error, 1)
	err = timers.Tx(t.Context(), func(tx *sql.Tx) error {
		go func() { beside <- timers.Schedule(t.Context(), in("order-1", time.Hour)) }()
		<-onItsWay
		return timers.ScheduleTx(t.Context(), tx, in("order-2", time.Hour))
	})
	if !errors.Is(err, timer.ErrOverQuota) {
		t.Errorf("%v, want ErrOverQuota", err)
	}
	if err := <-beside; err != nil {
		t.Errorf("the one beside it: %v", err)
	}
}

// TestATransactionCannotPassTheQuotaByItself schedules one by one what no count sees
// before the commit.
func TestATransactionCannotPassTheQuotaByItself(t *testing.T) {
	inMonolith(t, func(t *testing.T, m *monolith) {
		limiter, err := quota.New(quota.Config{Default: quota.Limits{Live: 2}}, timer.ClockFunc(time.Now), quota.Options{})
		if err != nil {
			t.Fatal(err)
		}
		timers, _ := m.run(app.Options{Quotas: limiter})
		for _, want := range []int64{2, 2} { // committed, and in the next transaction
			err = timers.Tx(t.Context(), func(tx *sql.Tx) error {
				for _, id := range []string{"1", "2", "3"} {
					if err := timers.ScheduleTx(t.Context(), tx, in(id, time.Hour)); err != nil {
						if id != "3" || !errors.Is(err, timer.ErrOverQuota) {
							t.Errorf("%s: %v", id, err)
						}
						return nil
					}
				}
				return nil
			})
			if s := stats(t, m.store); err != nil || s.Scheduled != want {
				t.Errorf("%+v, %v, want %d timers", s, err, want)
			}
		}
	})
}

func stats(t *testing.T, s *sqlite.Store) timer.Counts {
	t.Helper()
	stats, err := s.Stats(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return stats.Counts
}

// TestScheduleInsideOfTxEndsAtItsDeadline instead of waiting for the transaction, which
// waits for it. What it asked for is written afterwards.
func TestScheduleInsideOfTxEndsAtItsDeadline(t *testing.T) {
	inMonolith(t, func(t *testing.T, m *monolith) {
		timers, _ := m.run(app.Options{})
		began := time.Now()
		err := timers.Tx(t.Context(), func(*sql.Tx) error {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			if err := timers.Schedule(ctx, in("order-1", time.Minute)); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			return nil
		})
		if took := time.Since(began); err != nil || took != 2*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
		m.wants("order-1", began.Add(time.Minute))
	})
}
