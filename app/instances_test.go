package app_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/gochannel"
	"github.com/event-service-agent/timer-service/envelope"
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

func openPostgres(t *testing.T, url, version string) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), url, postgres.Options{Durability: postgres.Relaxed, Version: version})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// inMemory runs a broker in memory.
func inMemory(t *testing.T) broker.Broker {
	t.Helper()
	b := gochannel.New(gochannel.Options{}, quiet)
	running(t, "broker", b.Run)
	must(t, broker.AwaitReady(t.Context(), b))
	return b
}

// eventually waits until something is so, at most a minute.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for late := time.After(time.Minute); !ok(); {
		select {
		case <-late:
			t.Fatalf("not within a minute: %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestInstancesHandleEachEventOnce runs three programs on one PostgreSQL, each of which
// books timers of two kinds in transactions: two of them handle the one kind, the third the
// other kind. The first one stops on the way: the second takes over its events. When
// that stops too its events wait until there is one again.
func TestInstancesHandleEachEventOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	db := openPostgres(t, url, "")
	_, err := db.DB().ExecContext(t.Context(), `CREATE TABLE handled (call TEXT NOT NULL)`)
	must(t, err)
	count := func(query string) (n int) {
		must(t, db.DB().QueryRowContext(t.Context(), query).Scan(&n))
		return n
	}
	handled := func() int { return count(`SELECT count(*) FROM handled`) }
	const each = 50
	booked := 0
	begin := func(process, prefix string, stopsAt int) (book, stop func()) {
		a, err := app.New(instance{openPostgres(t, url, ""), process}, nil, quiet, app.Options{BatchSize: 7, PollingInterval: 200 * time.Millisecond})
		must(t, err)
		timers, seen, enough := a.Timers(), 0, make(chan struct{})
		timers.OnDueTx(prefix, func(ctx context.Context, tx *sql.Tx, e timer.DueTimeReached) error {
			if seen++; seen == stopsAt { // with one at once
				close(enough)
			}
			if !strings.HasPrefix(string(e.ServiceCallID), prefix) {
				t.Errorf("%s has %s", process, e.Key)
			}
			_, err := tx.ExecContext(ctx, `INSERT INTO handled (call) VALUES ($1)`, string(e.ServiceCallID))
			return err
		}, app.OnDueOptions{Concurrency: 1})
		stop = start(t, process, a)
		go func() {
			select {
			case <-enough:
				stop()
			case <-t.Context().Done():
			}
		}()
		return func() {
			t.Helper()
			for n := range each {
				must(t, timers.Tx(t.Context(), func(tx *sql.Tx) error {
					return errors.Join(timers.ScheduleTx(t.Context(), tx, in(fmt.Sprint("order-", booked, "-", n), 0)), timers.ScheduleTx(t.Context(), tx, in(fmt.Sprint("invoice-", booked, "-", n), 10*time.Millisecond)))
				}))
			}
			booked += each
		}, stop
	}
	bookFirst, _ := begin("first", "order-", 10)
	bookSecond, stopSecond := begin("second", "order-", 0)
	bookThird, _ := begin("third", "invoice-", 0)
	bookFirst()
	bookSecond()
	bookThird()
	eventually(t, "all are handled", func() bool { return handled() == 2*booked && count(`SELECT count(*) FROM timer_outbox`) == 0 })
	stopSecond()
	bookThird()
	eventually(t, "the events that none wants are kept", func() bool {
		kept, err := db.Unclaimed(t.Context(), 1000)
		return err == nil && len(kept) == each && handled() == 2*booked-each
	})
	begin("fourth", "order-", 0)
	eventually(t, "all are handled", func() bool { return handled() == 2*booked })
	if n := count(`SELECT count(DISTINCT call) FROM handled`); n != 2*booked {
		t.Errorf("%d rows of %d events", handled(), n)
	}
}

// TestInstancesOnOneDatabase has two instances, on stores that a host has decorated. It pauses
// firing on one of them: the other one stops too, and goes on when it is resumed. Each knows
// both, and forgets one that has ended.
func TestInstancesOnOneDatabase(t *testing.T) {
	t.Parallel()
	url, b := pgtest.URL(t), inMemory(t)
	var apps [2]*app.App
	var stops [2]func()
	var polls [2]atomic.Int64
	var stores [2]*postgres.Store
	for i := range apps {
		stores[i] = openPostgres(t, url, name("v1.2.", i))
		a, err := app.New(struct{ app.Store }{stores[i]}, b, quiet, app.Options{PollingInterval: 100 * time.Millisecond, Hooks: []app.Hooks{{Polled: func(time.Duration, error) { polls[i].Add(1) }}}})
		must(t, err)
		apps[i], stops[i] = a, start(t, "app", a)
	}
	known := func(i int) []timer.Node {
		nodes, err := apps[i].Nodes(t.Context())
		must(t, err)
		return nodes
	}
	for i := range apps {
		eventually(t, "two nodes", func() bool { return len(known(i)) == 2 })
		for _, n := range known(i) {
			if n.Self != (n.Version == name("v1.2.", i)) || len(n.ID) != 8 || n.Host == "" || n.PID == 0 || time.Since(n.Started) > time.Minute || time.Since(n.Seen) > 10*time.Second {
				t.Errorf("node %+v of instance %d", n, i)
			}
		}
	}

	for _, p := range []timer.Pause{{By: "ops"}, {TenantID: "acme", By: "ops"}} {
		must(t, apps[0].Pause(t.Context(), p))
		for i := range apps {
			eventually(t, "paused", func() bool { return apps[i].Status().Poller.Paused[p.TenantID].By == "ops" })
		}
	}
	put(t, stores[0], "acme", time.Now(), "call")
	reached := func() bool { return statsOf(t, stores[0], "acme").Reached == 1 }
	for _, tenant := range []timer.TenantID{"", "acme"} {
		for i := range apps {
			before := polls[i].Load()
			eventually(t, "polled twice", func() bool { return polls[i].Load() > before+1 })
		}
		if reached() {
			t.Fatalf("fired while firing of %q is paused", tenant)
		}
		must(t, apps[1].Resume(t.Context(), tenant))
	}
	eventually(t, "fired", reached)
	eventually(t, "resumed", func() bool { return len(apps[0].Status().Poller.Paused) == 0 })

	stops[1]()
	eventually(t, "one node", func() bool { return len(known(0)) == 1 })
}

// onPostgres runs a program on a handle of pgx, until stop is called.
func onPostgres(t *testing.T, url string, register func(s *postgres.Store, timers *app.Timers)) (s *postgres.Store, timers *app.Timers) {
	t.Helper()
	s = openPostgres(t, url, "")
	a, err := app.New(s, nil, quiet, app.Options{PollingInterval: time.Hour})
	must(t, err)
	register(s, a.Timers())
	start(t, "app", a)
	return s, a.Timers()
}

// TestOnDueTxOfPgxTakesEffectOnce has a handler write, schedule the next timer, and fail
// after both in each way there is: by an error, a panic, a connection that is lost, and a
// commit that is refused.
func TestOnDueTxOfPgxTakesEffectOnce(t *testing.T) {
	t.Parallel()
	tries, reminded := 0, make(chan timer.DueTimeReached, 10)
	s, timers := onPostgres(t, pgtest.URL(t), func(s *postgres.Store, timers *app.Timers) {
		for _, create := range []string{
			`CREATE TABLE orders (id text NOT NULL, try integer NOT NULL)`,
			`CREATE TABLE once (id text UNIQUE DEFERRABLE INITIALLY DEFERRED)`,
		} {
			_, err := s.DB().ExecContext(t.Context(), create)
			must(t, err)
		}
		app.OnDueTx(timers, s.Pgx(), "order-", func(ctx context.Context, tx pgx.Tx, joined app.Joined, e timer.DueTimeReached) error {
			tries++
			_, err := tx.Exec(ctx, `INSERT INTO orders (id, try) VALUES ($1, $2)`, string(e.ServiceCallID), tries)
			if err := errors.Join(err, joined.Schedule(ctx, in(name("reminder-", tries), 10*time.Millisecond))); err != nil {
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
				_, err = tx.Exec(ctx, `INSERT INTO once (id) VALUES ('a'), ('a')`)
			}
			return err
		}, app.OnDueOptions{MinDelay: time.Millisecond, MaxDelay: time.Millisecond})
		timers.OnDue("", func(_ context.Context, e timer.DueTimeReached) error { reminded <- e; return nil }, app.OnDueOptions{})
	})
	no := errors.New("no")
	book := func(id string, end error) error {
		return app.Tx(t.Context(), timers, s.Pgx(), func(tx pgx.Tx, joined app.Joined) error {
			_, err := tx.Exec(t.Context(), `INSERT INTO orders (id, try) VALUES ($1, 0)`, id)
			return errors.Join(err, joined.Schedule(t.Context(), in(id, 10*time.Millisecond)), end)
		})
	}
	if err := book("order-2", no); !errors.Is(err, no) {
		t.Errorf("a transaction that fails: %v", err)
	}
	must(t, book("order-1", nil))
	if e := <-reminded; e.ServiceCallID != "reminder-5" || e.Lateness() > 5*time.Second {
		t.Errorf("%s fired, %v late; want that of the fifth try, on time", e.Key, e.Lateness())
	}
	var ids string
	if err := s.DB().QueryRowContext(t.Context(), `SELECT string_agg(id || ' at ' || try, ', ' ORDER BY try) FROM orders`).Scan(&ids); err != nil || ids != "order-1 at 0, order-1 at 5" {
		t.Errorf("the orders are %q, %v; want the rows of the booking and of the fifth try", ids, err)
	}
	if tries != 5 || len(reminded) != 0 {
		t.Errorf("%d tries, %d more reminders", tries, len(reminded))
	}
}

// TestAPoolOfPgxCloses once Run has ended, though a handler that is at work never does: the
// lease gives its connection back.
func TestAPoolOfPgxCloses(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), pgtest.URL(t))
	must(t, err)
	db := stdlib.OpenDBFromPool(pool)
	must(t, postgres.Migrate(t.Context(), db))
	a, err := app.New(postgres.New(db, postgres.Options{Durability: postgres.Relaxed}), nil, quiet, app.Options{DrainTimeout: time.Millisecond})
	must(t, err)
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
	must(t, a.Timers().Schedule(t.Context(), in("order-1", 0)))
	<-begun
	stop()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), `forwarder did not end in time: the handler with the prefix "" has been at work on the event of acme.order-1 for`) {
		t.Error(err)
	}
	pool.Close()
}

// TestNoTimerFiresBehindAHostsLock has transactions of a host lock timers before they may fire,
// and for longer. Cancellations that arrive meanwhile take effect before the poller can have
// the timers, whenever the transactions end. Firing is paused until all have met their locks,
// since a busy machine may take seconds for that.
func TestNoTimerFiresBehindAHostsLock(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, b := openPostgres(t, url, ""), inMemory(t)
	a, err := app.New(s, b, quiet, app.Options{PollingInterval: 10 * time.Millisecond})
	must(t, err)
	start(t, "app", a)
	must(t, a.Pause(t.Context(), timer.Pause{By: "test"}))
	send := func(body []byte) {
		t.Helper()
		must(t, broker.Join(b.Publisher().Publish(t.Context(), broker.Message{Topic: b.Routing().CommandsOf("acme"), Message: message.NewMessage(uuid.NewString(), body)})))
	}
	key := func(i int) timer.Key {
		return timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(fmt.Sprint("locked-", i))}
	}
	const timers = 8
	due := time.Now().Add(time.Second)
	for i := range timers {
		send(envelope.Schedule(timer.ScheduleTimer{Key: key(i), DueAt: due, Version: timer.Version{TimestampMS: due.UnixMilli() - 1000, CommandID: fmt.Sprint("schedule-", i)}}))
	}
	eventually(t, "all are stored", func() bool {
		stats, err := s.Timers().Stats(t.Context(), "acme")
		must(t, err)
		return stats.Scheduled == timers
	})
	var hosts sync.WaitGroup
	resumed := make(chan struct{})
	for i := range timers {
		tx, err := s.DB().BeginTx(t.Context(), nil)
		must(t, err)
		_, err = tx.ExecContext(t.Context(), `SELECT FROM timer_schedules WHERE service_call_id = $1 FOR UPDATE`, string(key(i).ServiceCallID))
		must(t, err)
		hosts.Go(func() {
			<-resumed
			<-time.After(time.Until(due) + time.Second + rand.N(4*time.Second))
			if err := tx.Rollback(); err != nil {
				t.Error(err)
			}
		})
		send(envelope.Cancel(timer.CancelTimer{Key: key(i), Version: timer.Version{TimestampMS: due.UnixMilli(), CommandID: fmt.Sprint("cancel-", i)}}))
	}
	eventually(t, "all cancellations have met a lock", func() (met bool) {
		must(t, s.DB().QueryRowContext(t.Context(), `SELECT count(*) = $1 FROM timer_awaited`, timers).Scan(&met))
		return met
	})
	must(t, a.Resume(t.Context(), ""))
	close(resumed)
	hosts.Wait()
	eventually(t, "none waits", func() bool {
		stats, err := s.Timers().Stats(t.Context(), "acme")
		must(t, err)
		return stats.Scheduled == 0
	})
	stats, err := s.Timers().Stats(context.WithoutCancel(t.Context()), "acme")
	must(t, err)
	if stats.Canceled != timers || stats.Reached != 0 {
		t.Errorf("%d canceled, %d reached, want all canceled", stats.Canceled, stats.Reached)
	}
}
