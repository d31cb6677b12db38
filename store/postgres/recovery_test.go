package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/store/storetest"
	"github.com/event-service-agent/timer-service/timer"
)

// TestRecoveredProperty runs the property on a database that the store opens itself.
func TestRecoveredProperty(t *testing.T) {
	t.Parallel()
	storetest.RecoveredProperty(t, 60, func(t testing.TB) storetest.Store { return open(t, pgtest.URL(t), relaxed) })
}

// A numberedStore is a store that writes numbers.
type numberedStore struct{ *postgres.Store }

func newNumbered(t *testing.T, url string) numberedStore {
	return numberedStore{open(t, url, relaxed)}
}

func (n numberedStore) advance(t *testing.T, at int64) error {
	t.Helper()
	return n.Advance(t.Context(), timer.Number{Broker: "b", Log: "log", Kind: timer.LogCommands, Number: at}, timer.Number{Broker: "b", Log: "log", Kind: timer.LogEvents, Number: at})
}

// older deletes the last numbers, as a restore does under instances that run.
const older = `DELETE FROM timer_numbers WHERE seq > (SELECT max(seq) - 2 FROM timer_numbers)`

// TestAnOlderDatabaseIsFatal puts older tables in the place of newer ones.
func TestAnOlderDatabaseIsFatal(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	a, b := newNumbered(t, url), newNumbered(t, url)
	must(t, a.advance(t, 4))
	must(t, b.advance(t, 6))
	must(t, a.advance(t, 5)) // lower than the current number is fine
	must(t, b.Check(t.Context()))
	run(t, a.DB(), older)
	for _, s := range []numberedStore{a, b} {
		if err := s.advance(t, 7); !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), "another history") {
			t.Errorf("numbers above older tables: %v, want ErrFatal", err)
		}
	}
	must(t, newNumbered(t, url).advance(t, 8)) // after a restart
}

// TestAnInstanceThatWroteNothingNoticesAnOlderDatabase has two instances, of which one has
// written all numbers. What the other one writes would hide what was lost.
func TestAnInstanceThatWroteNothingNoticesAnOlderDatabase(t *testing.T) {
	t.Parallel()
	for what, do := range map[string]func(s numberedStore) error{
		"in its checks": func(s numberedStore) error { return s.Check(t.Context()) },
		"as it runs":    func(s numberedStore) error { return s.Watch(t.Context()) },
		"with numbers":  func(s numberedStore) error { return s.advance(t, 7) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			a, b := newNumbered(t, url), newNumbered(t, url)
			defer own(t, a.Store).Release()
			defer own(t, b.Store).Release()
			must(t, a.advance(t, 6))
			must(t, b.Check(t.Context()))
			run(t, a.DB(), older)
			failed := make(chan error, 1)
			go func() { failed <- do(b) }()
			select {
			case err := <-failed:
				if !errors.Is(err, timer.ErrFatal) {
					t.Errorf("%v, want ErrFatal", err)
				}
			case <-time.After(5 * time.Second):
				t.Error("nothing was noticed within 5 s")
			}
		})
	}
}

// TestAnotherServerIsFatal has the server be another one than the process began with, by what
// the process remembers of it.
func TestAnotherServerIsFatal(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		remembered func(c *postgres.Chronicle)
		want       string // part of the error; empty: the same server goes on
	}{
		"restarted":           {func(*postgres.Chronicle) {}, ""},
		"another timeline":    {func(c *postgres.Chronicle) { c.Timeline = "00000009" }, "another history"},
		"another cluster":     {func(c *postgres.Chronicle) { c.Cluster++ }, "another history"},
		"behind where it was": {func(c *postgres.Chronicle) { c.Position += 1 << 40 }, "another history"},
		"not known":           {func(c *postgres.Chronicle) { c.Timeline = "" }, "may not read which"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newNumbered(t, pgtest.URL(t))
			scheduled(t, s.Store, "call")
			s.Remember(func(c *postgres.Chronicle) {
				c.Started = c.Started.Add(-time.Hour)
				tt.remembered(c)
			})
			calls := map[string]func() error{
				"a command": func() error {
					_, err := s.Schedule(t.Context(), noon, schedule("late"))
					return err
				},
				"a firing": func() error {
					return s.Update(t.Context(), func(tx timer.Tx) error {
						_, err := tx.Reach(t.Context(), noon.Add(24*time.Hour), 10, nil)
						return err
					})
				},
				"numbers": func() error { return s.advance(t, 1) },
			}
			if tt.want == "" { // the first call finds out, and fails
				_ = calls["a command"]()
				for what, call := range calls {
					if err := call(); err != nil {
						t.Errorf("%s: %v", what, err)
					}
				}
				return
			}
			for what, call := range calls {
				if err := call(); !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%s: %v, want %q", what, err, tt.want)
				}
			}
			if e := get(t, s.Store, "call"); e.State != timer.Scheduled {
				t.Errorf("the timer is %s", e.State)
			}
			if _, err := s.Get(t.Context(), schedule("late").Key); !errors.Is(err, timer.ErrNotFound) {
				t.Errorf("a command that failed left a timer: %v", err)
			}
		})
	}
}

// TestACrashOfTheServerIsNoOtherHistory looks at the server while a transaction of somebody has written to
// its log in memory. A crash takes that away, and with it no commit that was acknowledged: the server must
// not seem to be behind where it was.
func TestACrashOfTheServerIsNoOtherHistory(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.URL(t), postgres.Options{})
	run(t, s.DB(), `CREATE TABLE of_somebody (text text)`)
	tx, err := s.DB().BeginTx(t.Context(), nil)
	must(t, err)
	defer func() { must(t, tx.Rollback()) }()
	for range 20 { // other tests may have it flushed at once
		_, err := tx.ExecContext(t.Context(), `INSERT INTO of_somebody SELECT repeat('x', 100) FROM generate_series(1, 1000)`)
		must(t, err)
		must(t, postgres.CheckRunning(t.Context(), s))
		var flushed, position int64
		must(t, s.DB().QueryRowContext(t.Context(), `SELECT (pg_current_wal_flush_lsn() - '0/0')::bigint`).Scan(&flushed))
		s.Remember(func(c *postgres.Chronicle) { position = c.Position })
		if position > flushed {
			t.Fatalf("it remembers that the server was at %d, which has flushed its log up to %d", position, flushed)
		}
	}
}

// TestNumbersByBoth has two instances write the same numbers at once: none fails.
func TestNumbersByBoth(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	var running sync.WaitGroup
	for range 2 {
		s := newNumbered(t, url)
		for range 2 {
			running.Go(func() {
				for n := range int64(50) {
					if err := s.advance(t, n); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	running.Wait()
	k, err := open(t, url, relaxed).Known(t.Context())
	if err != nil || len(k.Numbers) != 2 || k.Numbers[0].Number != 49 {
		t.Errorf("known %+v, %v, want 49", k, err)
	}
}

// TestOneInstanceIsAlone has one of two instances verify their database, and then run on
// it. There is one more on another schema.
func TestOneInstanceIsAlone(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	a, b, other := open(t, url, relaxed), open(t, url, relaxed), open(t, pgtest.URL(t), relaxed)
	alone := func(s *postgres.Store) (ran bool, err error) {
		err = s.Alone(t.Context(), func(ctx context.Context) error { ran = true; return ctx.Err() })
		return ran, err
	}
	must(t, a.Alone(t.Context(), func(ctx context.Context) error {
		if ran, err := alone(b); ran || err == nil || errors.Is(err, timer.ErrFatal) {
			t.Errorf("two are alone: %t, %v", ran, err)
		}
		if l, err := b.Own(ctx, outbox.Receivers{}); err == nil {
			l.Release()
			t.Error("an instance shares the database while another one verifies it")
		}
		if ran, err := alone(other); !ran || err != nil {
			t.Errorf("on another schema: %t, %v", ran, err)
		}
		return ctx.Err()
	}))
	emit(t, a, "call")
	if l := takeOver(t, b); l != nil {
		l.Release()
		t.Error("an instance takes over a shard of a database that none shares")
	}
	shares := own(t, a)
	if ran, err := alone(b); ran || err != nil {
		t.Errorf("while another one runs: %t, %v", ran, err)
	}
	own(t, b).Release()
	shares.Release()
	if ran, err := alone(b); !ran || err != nil {
		t.Errorf("when none runs: %t, %v", ran, err)
	}
}

// TestAloneEndsWithItsConnection ends the session of the one that is alone.
func TestAloneEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	a, b := open(t, url, relaxed), open(t, url, relaxed)
	ours := errors.New("ours")
	err := a.Alone(t.Context(), func(ctx context.Context) error {
		endAlone(t, handle(t, url))
		must(t, b.Alone(t.Context(), func(context.Context) error { return nil }))
		<-ctx.Done()
		return ours
	})
	if !errors.Is(err, ours) || !strings.Contains(err.Error(), "another instance may") {
		t.Errorf("alone: %v", err)
	}
}

// endAlone ends the session that holds the lock of Alone.
func endAlone(t *testing.T, db *sql.DB) {
	t.Helper()
	var n int
	if err := db.QueryRowContext(t.Context(), `
		SELECT count(pg_terminate_backend(pid, 5000))
		  FROM (SELECT DISTINCT pid FROM pg_locks
		         WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
		           AND classid = (hashtext('timer_service ' || current_schema())::bigint & 4294967295)::oid
		           AND objid = (-3::bigint & 4294967295)::oid) AS holders`).
		Scan(&n); err != nil || n != 1 {
		t.Fatalf("ended %d sessions, want 1: %v", n, err)
	}
}

// TestOldNumbersAreDeleted has two instances write the same numbers, of which each trims.
func TestOldNumbersAreDeleted(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	a, b := newNumbered(t, url), newNumbered(t, url)
	for i := range int64(20) {
		for _, n := range []numberedStore{a, b} {
			must(t, n.advance(t, i+1))
			if i%5 != 4 {
				continue
			}
			must(t, n.Trim(t.Context()))
			var rows int
			must(t, n.DB().QueryRowContext(t.Context(), `SELECT count(*) FROM timer_numbers`).Scan(&rows))
			if rows != 2 {
				t.Errorf("%d rows are left of two numbers", rows)
			}
		}
	}
	must(t, a.Check(t.Context()))
	k, err := a.Known(t.Context())
	if err != nil || len(k.Numbers) != 2 || k.Numbers[0].Number != 20 || k.Numbers[1].Number != 20 {
		t.Errorf("known %+v, %v, want 20", k, err)
	}
	written, _ := refuse("timer_numbers")
	kind.Exec(t, a.DB(), written)
	if err := b.Trim(t.Context()); err != nil {
		t.Errorf("with nothing to trim: %v", err)
	}
}

// TestInstancesUseOneBroker attaches instances of one database to two brokers.
func TestInstancesUseOneBroker(t *testing.T) {
	t.Parallel()
	place := pgtest.URL(t)
	a, b := open(t, place, relaxed), open(t, place, relaxed)
	attach := func(broker string, takeover bool, want string) {
		t.Helper()
		for range 2 {
			if other, err := b.Attach(t.Context(), broker, "nats://"+broker, takeover); err != nil || other != want {
				t.Errorf("attached to %s: %q is used, %v; want %q", broker, other, err, want)
			}
		}
	}
	if other, err := a.Attach(t.Context(), "here", "nats://here", false); err != nil || other != "" {
		t.Fatalf("the first one: %q is used, %v", other, err)
	}
	running := own(t, a)
	attach("here", false, "")
	attach("there", false, "nats://here")
	attach("there", true, "")
	if other, err := a.Attach(t.Context(), "here", "nats://here", false); err != nil || other != "nats://there" {
		t.Errorf("the first one after a takeover: %q is used, %v", other, err)
	}
	attach("here", true, "")
	running.Release()
	attach("there", false, "")
}

// TestOneOfTwoBrokersWins attaches two instances at once, neither of which runs yet.
func TestOneOfTwoBrokersWins(t *testing.T) {
	t.Parallel()
	place := pgtest.URL(t)
	brokers := []string{"here", "there"}
	var all sync.WaitGroup
	for _, broker := range brokers {
		s := open(t, place, relaxed)
		all.Go(func() {
			if _, err := s.Attach(t.Context(), broker, broker, false); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	s := open(t, place, relaxed)
	running := own(t, s)
	defer running.Release()
	refused := 0
	for _, broker := range brokers {
		other, err := s.Attach(t.Context(), broker, broker, false)
		must(t, err)
		if other != "" {
			refused++
		}
	}
	if refused != 1 {
		t.Errorf("%d of two brokers are refused, want one", refused)
	}
}
