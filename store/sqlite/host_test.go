package sqlite_test

import (
	"bytes"
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
// lock, from several stores, while a host writes too. None may fail
// because another was faster.
func TestDeferredHandle(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "host.db")
	open := func() *sql.DB {
		return handle(t, strings.Replace(sqlite.DSN(path), "_txlock=immediate", "_txlock=deferred", 1))
	}
	host := open()
	must(t, sqlite.Migrate(t.Context(), host))
	exec(t, host, `CREATE TABLE orders (id INTEGER PRIMARY KEY)`)
	const writers, rounds = 4, 20
	var running sync.WaitGroup
	for w := range writers {
		s := sqlite.New(open(), sqlite.Options{})
		running.Go(func() {
			defer s.Close()
			for n := range rounds {
				scheduled(t, s, timer.ServiceCallID(fmt.Sprint(w, "-", n)))
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
		db := handle(t, name)
		refusedHandle(t, db, "the database has no file, so that it ends with the process: give it one")
	}
}

// refusedHandle tries all that begins to use a handle.
func refusedHandle(t *testing.T, db *sql.DB, says string) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	must(t, err)
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
	ours := handle(t, sqlite.DSN(path))
	must(t, sqlite.Migrate(t.Context(), ours))
	sql.Register("foreign", foreign{ours.Driver()})
	sql.Register("tracing", tracing{ours.Driver()})

	db, err := sql.Open("foreign", sqlite.DSN(path))
	must(t, err)
	defer db.Close()
	refusedHandle(t, db, `the handle's driver is sqlite_test.foreign: open it with modernc's, sql.Open("sqlite", sqlite.DSN(path))`)

	tx, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	s := sqlite.New(ours, sqlite.Options{})
	defer s.Close()
	if _, err := s.Join(tx).Schedule(t.Context(), noon, schedule("call-1")); err == nil || errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), `the transaction is not one of modernc's driver: open its handle with sql.Open("sqlite", sqlite.DSN(path))`) {
		t.Errorf("a transaction of another driver: %v", err)
	}
	must(t, tx.Rollback())

	traced, err := sql.Open("tracing", sqlite.DSN(path))
	must(t, err)
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
		db := handle(t, strings.Replace(sqlite.DSN(path), "%28"+from+"%29", "("+to+")", 1))
		must(t, sqlite.Migrate(t.Context(), db))
		var log bytes.Buffer
		s := sqlite.New(db, sqlite.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		scheduled(t, s, "call-1")
		scheduled(t, s, "call-2")
		want := 0
		if warned {
			want = 1
		}
		if got := strings.Count(log.String(), "level=WARN"); got != want {
			t.Errorf("%s: %d warnings, want %d:\n%s", change, got, want, log.String())
		}
		must(t, s.Close())
	}
}
