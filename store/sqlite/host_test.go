package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// TestHandleWithOneConnectionIsRefused before anything waits for it for ever.
func TestHandleWithOneConnectionIsRefused(t *testing.T) {
	t.Parallel()
	db := openHost(t)
	db.SetMaxOpenConns(1)
	if err := sqlite.New(db, sqlite.Options{}).Prepare(t.Context()); !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), "give it 2 or more") {
		t.Error(err)
	}
}

// TestDeferredHandle uses a handle whose transactions begin without the write
// lock, from several stores, beside a host that writes too. None may fail
// because another was faster.
func TestDeferredHandle(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "host.db")
	open := func() *sql.DB {
		db, err := sql.Open("sqlite", strings.Replace(sqlite.DSN(path), "_txlock=immediate", "_txlock=deferred", 1))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return db
	}
	host := open()
	if err := sqlite.Migrate(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	if _, err := host.ExecContext(t.Context(), `CREATE TABLE orders (id INTEGER PRIMARY KEY)`); err != nil {
		t.Fatal(err)
	}
	const writers, rounds = 4, 20
	var running sync.WaitGroup
	for w := range writers {
		s := sqlite.New(open(), sqlite.Options{})
		running.Go(func() {
			defer s.Close()
			for n := range rounds {
				if _, err := s.Schedule(t.Context(), noon, schedule(timer.ServiceCallID(fmt.Sprint(w, "-", n)))); err != nil {
					t.Error("schedule: ", err)
				}
				if err := s.Update(t.Context(), func(tx timer.Tx) error { // reads first
					_, err := tx.Reach(t.Context(), noon, 1, nil)
					return err
				}); err != nil {
					t.Error("reach: ", err)
				}
				if _, err := host.ExecContext(t.Context(), `INSERT INTO orders DEFAULT VALUES`); err != nil {
					t.Error("host: ", err)
				}
			}
		})
	}
	running.Wait()
	st, err := sqlite.New(host, sqlite.Options{}).Stats(t.Context(), "")
	if err != nil || st.Reached != writers*rounds {
		t.Errorf("stats: %+v, %v, want %d reached", st, err, writers*rounds)
	}
}

// TestHostInMemoryIsRefused: each connection would have a database of its own.
func TestHostInMemoryIsRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{":memory:", "file::memory:?cache=shared", "file:timers?mode=memory&cache=shared", ""} {
		db, err := sql.Open("sqlite", name)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		refusedHandle(t, db, "the database has no file, so that it ends with the process: give it one")
	}
}

// refusedHandle tries all that begins to use a handle.
func refusedHandle(t *testing.T, db *sql.DB, says string) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	s := sqlite.New(db, sqlite.Options{})
	defer s.Close()
	_, scheduled := s.Schedule(t.Context(), noon, schedule("call-1"))
	_, joined := s.Join(tx).Schedule(t.Context(), noon, schedule("call-1"))
	for what, err := range map[string]error{
		"Migrate": sqlite.Migrate(t.Context(), db), "Verify": sqlite.Verify(t.Context(), db), "Prepare": s.Prepare(t.Context()), "Schedule": scheduled, "in a transaction": joined,
	} {
		if !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", what, err, says)
		}
	}
}

// A foreign driver is one of SQLite, and not of modernc's: its errors are of another type.
// Or it traces that one, and passes its errors on.
type (
	foreign     struct{ driver.Driver }
	tracing     struct{ driver.Driver }
	foreignConn struct {
		driver.Conn
		hide func(error) error
	}
	foreignStmt struct {
		driver.Stmt
		hide func(error) error
	}
)

func (f foreign) Open(name string) (driver.Conn, error) {
	conn, err := f.Driver.Open(name)
	return foreignConn{conn, func(err error) error {
		if err != nil {
			err = errors.New(err.Error())
		}
		return err
	}}, err
}

func (f tracing) Open(name string) (driver.Conn, error) {
	conn, err := f.Driver.Open(name)
	return foreignConn{conn, func(err error) error { return err }}, err
}

func (c foreignConn) Prepare(query string) (driver.Stmt, error) {
	stmt, err := c.Conn.Prepare(query)
	return foreignStmt{stmt, c.hide}, c.hide(err)
}

func (s foreignStmt) Exec(args []driver.Value) (driver.Result, error) {
	r, err := s.Stmt.Exec(args) //nolint:staticcheck // of drivers without contexts
	return r, s.hide(err)
}

// TestOtherDriverIsRefused, by name. Its locks and ours do not know each other.
func TestOtherDriverIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "host.db")
	ours, err := sql.Open("sqlite", sqlite.DSN(path))
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	if err := sqlite.Migrate(t.Context(), ours); err != nil {
		t.Fatal(err)
	}
	sql.Register("foreign", foreign{ours.Driver()})
	sql.Register("tracing", tracing{ours.Driver()})

	db, err := sql.Open("foreign", sqlite.DSN(path))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	refusedHandle(t, db, `the handle's driver is sqlite_test.foreign: open it with modernc's, sql.Open("sqlite", sqlite.DSN(path))`)

	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := sqlite.New(ours, sqlite.Options{})
	defer s.Close()
	if _, err := s.Join(tx).Schedule(t.Context(), noon, schedule("call-1")); err == nil || errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), `the transaction is not one of modernc's driver: open its handle with sql.Open("sqlite", sqlite.DSN(path))`) {
		t.Errorf("a transaction of another driver: %v", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}

	traced, err := sql.Open("tracing", sqlite.DSN(path))
	if err != nil {
		t.Fatal(err)
	}
	defer traced.Close()
	s = sqlite.New(traced, sqlite.Options{})
	defer s.Close()
	if err := s.Transact(t.Context(), func(tx *sql.Tx) error {
		_, err := s.Join(tx).Schedule(t.Context(), noon, schedule("call-1"))
		return err
	}); err != nil {
		t.Errorf("a driver around ours: %v", err)
	}
}

// TestHostIsToldWhatIsUnsafe uses a handle that does not sync, and one that does not wait.
func TestHostIsToldWhatIsUnsafe(t *testing.T) {
	t.Parallel()
	for change, warned := range map[string]bool{"full>full": false, "full>normal": true, "5000>0": true} {
		path := filepath.Join(t.TempDir(), "host.db")
		from, to, _ := strings.Cut(change, ">")
		db, err := sql.Open("sqlite", strings.Replace(sqlite.DSN(path), "%28"+from+"%29", "("+to+")", 1))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := sqlite.Migrate(t.Context(), db); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		s := sqlite.New(db, sqlite.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		for range 2 {
			if _, err := s.Schedule(t.Context(), noon, schedule("call-1")); err != nil {
				t.Fatal(err)
			}
		}
		want := 0
		if warned {
			want = 1
		}
		if got := strings.Count(log.String(), "level=WARN"); got != want {
			t.Errorf("%s: %d warnings, want %d:\n%s", change, got, want, log.String())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestHostForgetsToMigrate uses a host's handle without our tables.
func TestHostForgetsToMigrate(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", sqlite.DSN(filepath.Join(t.TempDir(), "host.db")))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s := sqlite.New(db, sqlite.Options{})
	_, err = s.Schedule(t.Context(), noon, schedule("call-1"))
	if err == nil || !strings.Contains(err.Error(), "sqlite.Migrate") || errors.Is(err, timer.ErrFatal) || errors.Is(err, timer.ErrInvalid) {
		t.Errorf("schedule: %v, want an error that says how to migrate", err)
	}
	if err := sqlite.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Schedule(t.Context(), noon, schedule("call-1")); err != nil {
		t.Errorf("schedule after the migration: %v", err)
	}
}

// TestWaitingWriterGivesUp waits for the turn of another writer until the
// context ends.
func TestWaitingWriterGivesUp(t *testing.T) {
	t.Parallel()
	s := openFile(t, sqlite.Options{})
	ctx, end := context.WithCancel(t.Context())
	if err := s.Update(t.Context(), func(timer.Tx) error {
		waited := make(chan error)
		go func() {
			_, err := s.Schedule(ctx, noon, schedule("call-1"))
			waited <- err
		}()
		end()
		if err := <-waited; !errors.Is(err, context.Canceled) {
			t.Errorf("schedule: %v, want that the context ended", err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Schedule(t.Context(), noon, schedule("call-1")); err != nil {
		t.Error(err)
	}
}

// TestCloseWaitsForTheTransactionAtWork closes a store while it writes.
func TestCloseWaitsForTheTransactionAtWork(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "timers.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	if err := s.Update(t.Context(), func(tx timer.Tx) error {
		go func() { closed <- s.Close() }()
		return tx.Emit(t.Context(), timer.DueTimeReached{Key: schedule("call-1").Key, CommandID: "command", DueAt: noon, ReachedAt: noon})
	}); err != nil {
		t.Fatalf("the transaction at work: %v", err)
	}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if _, err := s.Schedule(t.Context(), noon, schedule("call-1")); err == nil {
		t.Error("a closed store took a command")
	}
	r, err := sqlite.OpenReader(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if st, err := r.Stats(t.Context(), ""); err != nil || st.Outbox != 1 {
		t.Errorf("stats: %+v, %v, want 1 event", st, err)
	}
}
