package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"testing"
	"time"

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
	timer.Commands
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

// TestAbortedTransactionTakesNothing has a statement of the host's fail before.
func TestAbortedTransactionTakesNothing(t *testing.T) {
	t.Parallel()
	for kind, begin := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := onHost(t)
			scheduled(t, s.(*postgres.Store), "other") // so that it is ready
			tx := begin(t, s)
			if err := tx.Exec(t.Context(), `SELECT 1/0`); err == nil {
				t.Fatal("the host's statement did not fail")
			}
			_, err := tx.Schedule(t.Context(), noon, schedule("ours"))
			wantCode(t, err, "25P02")
			must(t, tx.Rollback())
		})
	}
}

// TestSerializationFailureLeavesTheTransaction has a command meet a timer that was
// changed after the snapshot of the host's transaction.
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
