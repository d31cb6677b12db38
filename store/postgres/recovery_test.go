package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/store/storetest"
	"github.com/event-service-agent/timer-service/timer"
)

// TestRecoveredProperty runs the property on a database that the store opens itself.
func TestRecoveredProperty(t *testing.T) {
	t.Parallel()
	storetest.RecoveredProperty(t, 60, func(t testing.TB) storetest.Store { return open(t, pgtest.URL(t), relaxed) })
}

// A noter is a store that notes a position with a command.
type noter struct {
	*postgres.Store
	at atomic.Int64
}

func newNoter(t *testing.T, url string) *noter {
	n := &noter{Store: open(t, url, relaxed)}
	n.CommitPositions(func() []timer.Position {
		return []timer.Position{{Log: "commands", Committed: n.at.Load(), Observed: n.at.Load()}, {Log: "events", Observed: n.at.Load()}}
	})
	return n
}

func (n *noter) note(t *testing.T, at int64) error {
	t.Helper()
	n.at.Store(at)
	_, err := n.Cancel(t.Context(), noon, cancel("call"))
	return err
}

// olderPositions returns a statement that puts others in place of all positions.
func olderPositions(committed, observed string) string {
	return fmt.Sprintf(`
		WITH gone AS (DELETE FROM timer_positions RETURNING log, committed, observed)
		INSERT INTO timer_positions (log, committed, observed)
		SELECT log, %s, %s FROM gone GROUP BY log`, committed, observed)
}

// TestAnOlderDatabaseIsFatal puts an older row in place of a newer one, as a restore
// under a running instance does.
func TestAnOlderDatabaseIsFatal(t *testing.T) {
	t.Parallel()
	for name, older := range map[string]string{
		"commands": olderPositions("3", "max(observed)"),
		"events":   olderPositions("max(committed)", "3"),
		"no row":   `DELETE FROM timer_positions WHERE log = 'events'`,
		"no rows":  `DELETE FROM timer_positions`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			a, b := newNoter(t, url), newNoter(t, url)
			must(t, a.note(t, 4))
			must(t, b.note(t, 6))
			must(t, a.note(t, 5)) // lower than what is there is fine
			run(t, a.DB(), older)
			before := get(t, a.Store, "call")
			for _, s := range []*noter{a, b} {
				s.at.Store(7)
				results, err := s.Schedule(t.Context(), noon, schedule("late"))
				if !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), "older than it was") {
					t.Errorf("with a higher position: %+v, %v, want ErrFatal", results, err)
				}
			}
			if _, err := a.Get(t.Context(), schedule("late").Key); !errors.Is(err, timer.ErrNotFound) {
				t.Errorf("a transaction that failed left a timer: %v", err)
			}
			if get(t, a.Store, "call") != before {
				t.Error("a timer has changed")
			}
			must(t, newNoter(t, url).note(t, 8)) // after a restart
		})
	}
}

// TestAnInstanceThatWroteNothingNoticesAnOlderDatabase has two instances, of which one has
// noted all, and the other one nothing yet. What that one noted would hide what was lost.
func TestAnInstanceThatWroteNothingNoticesAnOlderDatabase(t *testing.T) {
	t.Parallel()
	for what, do := range map[string]func(s *noter) error{
		"in its checks":  func(s *noter) error { return s.Check(t.Context()) },
		"as it runs":     func(s *noter) error { return s.Watch(t.Context()) },
		"with a command": func(s *noter) error { return s.note(t, 7) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			a, b := newNoter(t, url), newNoter(t, url)
			defer own(t, a.Store).Release()
			defer own(t, b.Store).Release()
			must(t, a.note(t, 6))
			must(t, b.Check(t.Context()))
			run(t, a.DB(), olderPositions("3", "3"))
			failed := make(chan error, 1)
			go func() { failed <- do(b) }()
			select {
			case err := <-failed:
				if !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), "older than it was") {
					t.Errorf("%v, want ErrFatal", err)
				}
			case <-time.After(5 * time.Second):
				t.Error("nothing was noticed within 5 s")
			}
		})
	}
}

// TestNothingFiresFromAnOlderDatabase has the cancellation of a due timer be lost.
func TestNothingFiresFromAnOlderDatabase(t *testing.T) {
	t.Parallel()
	s := newNoter(t, pgtest.URL(t))
	defer own(t, s.Store).Release()
	scheduled(t, s.Store, "call")
	must(t, s.note(t, 6)) // cancels it
	run(t, s.DB(), olderPositions("3", "3"),
		`UPDATE timer_schedules SET state = 'Scheduled', canceled_at = NULL, command_at = 1, command_id = 'command'`)
	err := s.Update(t.Context(), func(tx timer.Tx) error {
		_, err := tx.Reach(t.Context(), noon, 10, nil)
		return err
	})
	if !errors.Is(err, timer.ErrFatal) {
		t.Errorf("fire: %v, want ErrFatal", err)
	}
	if e := get(t, s.Store, "call"); e.State != timer.Scheduled {
		t.Errorf("a canceled timer is %s", e.State)
	}
}

// TestPositionsByBoth has two instances note the same logs at once: none falls, none fails.
func TestPositionsByBoth(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	var running sync.WaitGroup
	for first := range int64(2) {
		s := newNoter(t, url)
		for range 2 {
			running.Go(func() {
				for n := range int64(100) {
					if err := s.note(t, 2*n+first); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	running.Wait()
	n, err := open(t, url, relaxed).Noted(t.Context())
	if want := (timer.Position{Log: "commands", Committed: 199, Observed: 199}); err != nil || len(n.Positions) != 2 || n.Positions[0] != want {
		t.Errorf("noted %+v, %v, want %+v", n, err, want)
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
		if l, err := b.Own(ctx); err == nil {
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
		t.Errorf("beside one that runs: %t, %v", ran, err)
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

// TestOldPositionsAreDeleted has two instances note the same logs, of which each trims.
func TestOldPositionsAreDeleted(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	a, b := newNoter(t, url), newNoter(t, url)
	trimmed := map[*noter]*postgres.Trimmed{a: {}, b: {}}
	for i := range int64(20) {
		for _, n := range []*noter{a, b} {
			must(t, n.note(t, i+1))
			if i%5 != 4 {
				continue
			}
			must(t, n.Trim(t.Context(), trimmed[n]))
			var rows int
			must(t, n.DB().QueryRowContext(t.Context(), `SELECT count(*) FROM timer_positions`).Scan(&rows))
			if rows > 4 {
				t.Errorf("%d rows are left of two logs, want at most two of each", rows)
			}
		}
	}
	noted, err := a.Noted(t.Context())
	must(t, err)
	if diff := cmp.Diff([]timer.Position{{Log: "commands", Committed: 20, Observed: 20}, {Log: "events", Observed: 20}}, noted.Positions); diff != "" {
		t.Errorf("positions (-want +got):\n%s", diff)
	}
	must(t, a.Check(t.Context()))
	written, _ := refuse("timer_positions")
	kind.Exec(t, a.DB(), written)
	if err := b.Trim(t.Context(), trimmed[b]); err != nil {
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
