package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/store/storetest"
	"github.com/event-service-agent/timer-service/timer"
)

// kinds are how a host may begin a transaction.
var kinds = map[string]storetest.Begin{
	"database/sql": func(t testing.TB, s storetest.JoinedStore) storetest.HostTx {
		return storetest.BeginSQL(t, s.DB(), s.Join)
	},
	"pgx": beginPgx,
}

// TestJoined runs the contract of commands in a host's transactions, of each kind.
func TestJoined(t *testing.T) {
	t.Parallel()
	for kind, begin := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			storetest.RunJoined(t, onHost, begin)
			storetest.JoinedReferenced(t, func(t testing.TB, calls []timer.ServiceCallID) storetest.JoinedStore {
				s, _ := referenced(t, relaxed, calls)
				return s
			}, begin)
		})
	}
}

// TestTransact runs the contract of transactions for a host.
func TestTransact(t *testing.T) {
	t.Parallel()
	storetest.RunTransact(t, onHost)
}

// TestAnyMixOfTransactions compares the store with a model.
func TestAnyMixOfTransactions(t *testing.T) {
	t.Parallel()
	storetest.JoinedProperty(t, 25, onHost, kinds["database/sql"], kinds["pgx"])
}

func onHost(t testing.TB) storetest.JoinedStore {
	return postgres.New(migrated(t, pgtest.URL(t)), relaxed)
}

// beginPgx begins a transaction of pgx's own, on a connection of its own.
func beginPgx(t testing.TB, s storetest.JoinedStore) storetest.HostTx {
	t.Helper()
	handle, err := s.DB().Conn(t.Context())
	must(t, err)
	defer handle.Close()
	var config *pgx.ConnConfig
	must(t, handle.Raw(func(c any) error { config = c.(*stdlib.Conn).Conn().Config(); return nil }))
	conn, err := pgx.ConnectConfig(t.Context(), config)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) }) // if it is open then
	tx, err := conn.Begin(t.Context())
	must(t, err)
	return pgxTx{s.(*postgres.Store).JoinPgx(tx), tx}
}

type pgxTx struct {
	timer.Transaction
	tx pgx.Tx
}

func (t pgxTx) Exec(ctx context.Context, text string) error {
	_, err := t.tx.Exec(ctx, text)
	return err
}

func (t pgxTx) Commit() error {
	return errors.Join(t.tx.Commit(context.Background()), t.tx.Conn().Close(context.Background()))
}

func (t pgxTx) Rollback() error {
	return errors.Join(t.tx.Rollback(context.Background()), t.tx.Conn().Close(context.Background()))
}

// TestOpenTransactionBlocksNoOtherKey leaves a transaction of a host's open while the
// store goes on with other keys. What it scheduled is seen when it commits.
func TestOpenTransactionBlocksNoOtherKey(t *testing.T) {
	t.Parallel()
	for kind, begin := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := onHost(t)
			scheduled(t, s.(*postgres.Store), "other")
			tx := begin(t, s)
			if _, err := tx.Schedule(t.Context(), noon, schedule("ours")); err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Cancel(t.Context(), noon, cancel("none")); err != nil {
				t.Fatal(err)
			}
			ctx, end := context.WithTimeout(t.Context(), 10*time.Second)
			defer end()
			if _, err := s.Schedule(ctx, noon, schedule("another")); err != nil {
				t.Error("schedule: ", err)
			}
			if _, err := s.Cancel(ctx, noon, cancel("another")); err != nil {
				t.Error("cancel: ", err)
			}
			if got := reach(t, s.(*postgres.Store), 10); !slices.Equal(got, []timer.ServiceCallID{"other"}) {
				t.Errorf("reached %v, want the other one", got)
			}
			if n, err := s.Purge(ctx, noon.Add(time.Hour), 10); n != 2 || err != nil {
				t.Errorf("purged %d, %v, want 2", n, err)
			}
			if due, err := s.NextDue(ctx, time.Time{}); !due.IsZero() || err != nil {
				t.Errorf("next due: %v, %v, want none", due, err)
			}
			must(t, tx.Commit())
			if due, err := s.NextDue(ctx, time.Time{}); !due.Equal(noon) || err != nil {
				t.Errorf("next due after the commit: %v, %v, want noon", due, err)
			}
			if got := reach(t, s.(*postgres.Store), 10); !slices.Equal(got, []timer.ServiceCallID{"ours"}) {
				t.Errorf("reached %v after the commit, want ours", got)
			}
		})
	}
}

// TestLockedKeyFailsAlone leaves a transaction of a host's open that has locked a key,
// while commands for it and for others come together.
func TestLockedKeyFailsAlone(t *testing.T) {
	t.Parallel()
	for name, lock := range map[string]timer.ServiceCallID{"a new timer": "new", "a known timer": "known"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := onHost(t)
			scheduled(t, s.(*postgres.Store), "known")
			tx := kinds["database/sql"](t, s)
			if _, err := tx.Schedule(t.Context(), noon, schedule(lock)); err != nil {
				t.Fatal(err)
			}
			results, err := s.Schedule(t.Context(), noon, schedule("a"), schedule(lock), schedule("b"))
			if !errors.Is(err, timer.ErrLocked) {
				t.Errorf("%v, %v, want %v", results, err, timer.ErrLocked)
			}
			must(t, tx.Commit())
			if _, err := s.Schedule(t.Context(), noon, schedule("a"), schedule(lock), schedule("b")); err != nil {
				t.Error("after the commit: ", err)
			}
		})
	}
}

// TestAnotherInstanceAppliesWhatWaitsForALock has an instance die whose commands met a lock. Their
// timers fire when another one has applied them.
func TestAnotherInstanceAppliesWhatWaitsForALock(t *testing.T) {
	t.Parallel()
	place := pgtest.URL(t)
	died, lives := open(t, place, relaxed), open(t, place, relaxed)
	scheduled(t, died, "locked", "shares the commit")
	canceled(t, lives, "other") // so that it runs before
	host, err := died.DB().BeginTx(t.Context(), nil)
	must(t, err)
	_, err = host.ExecContext(t.Context(), `SELECT FROM timer_schedules WHERE service_call_id = 'locked' FOR UPDATE`)
	must(t, err)
	if _, err := died.Schedule(t.Context(), noon, schedule("locked"), schedule("shares the commit")); !errors.Is(err, timer.ErrLocked) {
		t.Errorf("%v, want %v", err, timer.ErrLocked)
	}
	must(t, host.Rollback())
	if calls := reach(t, lives, 10); len(calls) > 0 {
		t.Errorf("%v fired before their commands were applied", calls)
	}
	results, err := lives.Cancel(t.Context(), noon, cancel("locked"))
	if err != nil || results[0].Outcome != timer.DidCancel {
		t.Errorf("%v, %v, want that it is canceled", results, err)
	}
	scheduled(t, lives, "shares the commit")
	if calls := reach(t, lives, 10); len(calls) > 0 {
		t.Errorf("%v fired at once, though another command may wait for the lock", calls)
	}
	_, err = lives.DB().ExecContext(t.Context(), `SELECT pg_sleep(2.1)`)
	must(t, err)
	if calls := reach(t, lives, 10); len(calls) != 1 {
		t.Errorf("%v fired, want the other one, within seconds", calls)
	}
}

// TestACommandFreesNoTimerForWhichAnotherOneWaits has two commands meet the lock of a timer. The
// first one is stale.
func TestACommandFreesNoTimerForWhichAnotherOneWaits(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.URL(t), relaxed)
	scheduled(t, s, "locked")
	host, err := s.DB().BeginTx(t.Context(), nil)
	must(t, err)
	_, err = host.ExecContext(t.Context(), `SELECT FROM timer_schedules WHERE service_call_id = 'locked' FOR UPDATE`)
	must(t, err)
	if _, err := s.Schedule(t.Context(), noon, schedule("locked")); !errors.Is(err, timer.ErrLocked) {
		t.Errorf("%v, want %v", err, timer.ErrLocked)
	}
	if _, err := s.Cancel(t.Context(), noon, cancel("locked")); !errors.Is(err, timer.ErrLocked) {
		t.Errorf("%v, want %v", err, timer.ErrLocked)
	}
	must(t, host.Rollback())
	if _, err := s.Schedule(t.Context(), noon, schedule("locked")); err != nil {
		t.Error(err)
	}
	if calls := reach(t, s, 10); len(calls) > 0 {
		t.Errorf("%v fired before the cancellation was applied", calls)
	}
	results, err := s.Cancel(t.Context(), noon, cancel("locked"))
	if err != nil || results[0].Outcome != timer.DidCancel {
		t.Errorf("%v, %v, want that it is canceled", results, err)
	}
}

// TestAbortedTransactionTakesNothing has a statement of the caller fail before.
func TestAbortedTransactionTakesNothing(t *testing.T) {
	t.Parallel()
	for kind, begin := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := onHost(t)
			scheduled(t, s.(*postgres.Store), "other") // so that it is ready
			tx := begin(t, s)
			if err := tx.Exec(t.Context(), `SELECT 1/0`); err == nil {
				t.Fatal("the statement of the caller did not fail")
			}
			_, err := tx.Schedule(t.Context(), noon, schedule("ours"))
			wantCode(t, err, "25P02")
			must(t, tx.Rollback())
		})
	}
}

// TestSerializationFailureLeavesTheTransaction has a command meet a timer that was
// changed after the snapshot of the transaction.
func TestSerializationFailureLeavesTheTransaction(t *testing.T) {
	t.Parallel()
	for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
		s := postgres.New(migrated(t, pgtest.URL(t)), relaxed)
		scheduled(t, s, "changed", "other")
		tx, err := s.DB().BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
		must(t, err)
		defer func() { _ = tx.Rollback() }()
		run(t, tx, `SELECT 1 FROM timer_schedules`) // takes the snapshot
		canceled(t, s, "changed", "none")
		for _, call := range []timer.ServiceCallID{"changed", "none"} {
			c := schedule(call)
			c.TimestampMS = 3
			_, err := s.Join(tx).Schedule(t.Context(), noon, schedule("new"), c)
			wantCode(t, err, "40001")
		}
		if got, err := s.Join(tx).Cancel(t.Context(), noon, cancel("other")); err != nil || got[0].Outcome != timer.DidCancel {
			t.Errorf("%s: cancel after the failure: %v, %v", level, got, err)
		}
		must(t, tx.Commit())
		c, err := s.Stats(t.Context(), "acme")
		if want := (timer.Counts{Canceled: 3}); c.Counts != want || err != nil {
			t.Errorf("%s: %+v, %v, want %+v", level, c, err, want)
		}
	}
}

// TestJoinedInEveryMode uses handles whose statements go to the server in other ways,
// as behind a PgBouncer.
func TestJoinedInEveryMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := postgres.New(migrated(t, pgtest.URL(t)+"&default_query_exec_mode="+mode), relaxed)
			tx, err := s.DB().BeginTx(t.Context(), nil)
			must(t, err)
			defer func() { _ = tx.Rollback() }()
			joined := s.Join(tx)
			first, newer := schedule("call-1"), schedule("call-1")
			newer.TimestampMS, newer.Data, newer.DueAt = 3, `{"a":1}`, noon.Add(time.Hour)
			for _, c := range []timer.ScheduleTimer{first, newer} {
				if _, err := joined.Schedule(t.Context(), noon, c, schedule("call-2")); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := joined.Cancel(t.Context(), noon, cancel("call-1"), cancel("call-2"), cancel("call-3")); err != nil ||
				got[0].Outcome != timer.WasStale || got[1].Outcome != timer.DidCancel || got[2].Outcome != timer.DidCancel {
				t.Errorf("cancel: %v, %v", got, err)
			}
			must(t, tx.Commit())
			if e := get(t, s, "call-1"); !e.DueAt.Equal(newer.DueAt) || e.Data != newer.Data {
				t.Errorf("committed: %+v", e)
			}
		})
	}
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || e.Code != code || errors.Is(err, timer.ErrInvalid) || errors.Is(err, timer.ErrFatal) {
		t.Errorf("error is %v, want one that may pass with code %s", err, code)
	}
}

// TestReferenceKeepsWhatIsThere checks that only the foreign key is added, that it
// is valid, also if it was left half done, and that timers go with their service
// calls and are counted.
func TestReferenceKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	for name, half := range map[string]bool{"at once": false, "after it was left half done": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			place := pgtest.URL(t)
			db := migrated(t, place)
			run(t, db, storetest.CreateServiceCalls, `INSERT INTO service_calls VALUES ('acme', 'call-1'), ('acme', 'call-2')`)
			s := postgres.New(db, relaxed)
			scheduled(t, s, "call-1", "call-2")
			before, entry := schemaOf(t, db), get(t, s, "call-1")
			const constraint = "timer_schedules_service_call FOREIGN KEY (tenant_id, service_call_id) REFERENCES service_calls(tenant_id, service_call_id) ON DELETE CASCADE"
			if half {
				run(t, db, `ALTER TABLE timer_schedules ADD CONSTRAINT `+constraint+` NOT VALID`)
			}
			for range 2 { // the second time changes nothing
				must(t, postgres.ReferenceServiceCalls(t.Context(), db))
			}
			var added []string
			for _, text := range schemaOf(t, db) {
				if !slices.Contains(before, text) {
					added = append(added, text)
				}
			}
			if diff := cmp.Diff([]string{"constraint " + constraint + " true"}, added); diff != "" {
				t.Errorf("added (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(entry, get(t, s, "call-1")); diff != "" {
				t.Errorf("timer (-before +after):\n%s", diff)
			}
			u, err := url.Parse(place)
			must(t, err)
			schema := u.Query().Get("search_path") // which a role that deletes need not have in its
			run(t, handle(t, pgtest.Server(t)), `DELETE FROM `+schema+`.service_calls WHERE service_call_id = 'call-1'`)
			if _, err := s.Get(t.Context(), schedule("call-1").Key); !errors.Is(err, timer.ErrNotFound) {
				t.Errorf("a timer whose service call was deleted: %v, want ErrNotFound", err)
			}
			counts, err := s.Stats(t.Context(), "acme")
			if want := (timer.Counts{Scheduled: 1}); err != nil || counts.Counts != want {
				t.Errorf("counts: %+v, %v, want %+v", counts, err, want)
			}
		})
	}
}

// TestReferenced runs the contract of a store with the foreign key.
func TestReferenced(t *testing.T) {
	t.Parallel()
	storetest.Referenced(t, func(t testing.TB, calls []timer.ServiceCallID) storetest.Store {
		s, _ := referenced(t, relaxed, calls)
		return s
	})
}

// referenced returns a store on a database with the foreign key, and with service
// calls of acme.
func referenced(t testing.TB, opt postgres.Options, calls []timer.ServiceCallID) (*postgres.Store, *sql.DB) {
	t.Helper()
	db := migrated(t, pgtest.URL(t))
	run(t, db, storetest.CreateServiceCalls)
	if _, err := db.ExecContext(t.Context(), `INSERT INTO service_calls SELECT 'acme', unnest($1::text[])`, calls); err != nil {
		t.Fatal(err)
	}
	must(t, postgres.ReferenceServiceCalls(t.Context(), db))
	return postgres.New(db, opt), db
}

// TestHostRefusesOnlyWhatItNames has a host that refuses the timers of a tenant, by a
// constraint and by a trigger, of commands and of events that a start reads.
func TestHostRefusesOnlyWhatItNames(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"constraint": `ALTER TABLE timer_schedules ADD CONSTRAINT host CHECK (tenant_id <> 'refused')`,
		"trigger": `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not these'; END $$;
			CREATE TRIGGER refuse BEFORE INSERT ON timer_schedules FOR EACH ROW WHEN (NEW.tenant_id = 'refused') EXECUTE FUNCTION refuse()`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, db := referenced(t, relaxed, []timer.ServiceCallID{"call"})
			run(t, db, text)
			commands := []timer.ScheduleTimer{schedule("call"), schedule("call")}
			commands[0].TenantID = "refused"
			results, err := s.Schedule(t.Context(), noon, commands...)
			if err != nil || len(results) != 2 || !errors.Is(results[0].Err, timer.ErrInvalid) || results[1].Err != nil {
				t.Errorf("results %+v, %v", results, err)
			}
			events := []timer.DueTimeReached{
				{Key: commands[0].Key, CommandID: "command", DueAt: noon, ReachedAt: noon},
				{Key: commands[1].Key, CommandID: "command", DueAt: noon, ReachedAt: noon},
			}
			must(t, s.Update(t.Context(), func(tx timer.Tx) error { return tx.Emit(t.Context(), events...) }))
			if changed, err := s.Fired(t.Context(), time.Hour, events...); err != nil || changed != 1 {
				t.Errorf("events: %d changed, %v, want 1", changed, err)
			}
			if changed, err := s.Fired(t.Context(), time.Hour, events[0]); err != nil || changed != 0 {
				t.Errorf("the one that is refused: %d changed, %v", changed, err)
			}
			if c, err := s.Stats(t.Context(), ""); err != nil || c.Reached != 1 || c.Outbox != 0 {
				t.Errorf("%+v, %v, want 1 Reached and an empty outbox", c, err)
			}
		})
	}
}
