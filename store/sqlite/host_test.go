package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

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
	st, err := sqlite.New(host, sqlite.Options{}).Stats(t.Context())
	if err != nil || st.Reached != writers*rounds {
		t.Errorf("stats: %+v, %v, want %d reached", st, err, writers*rounds)
	}
}

// TestHostInMemory uses a database without a file, on one connection.
func TestHostInMemory(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if err := sqlite.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	s := sqlite.New(db, sqlite.Options{})
	defer s.Close()
	for i := range 3 {
		if _, err := s.Schedule(t.Context(), noon, schedule(timer.ServiceCallID(fmt.Sprint("call-", i)))); err != nil {
			t.Fatal(err)
		}
	}
	if due, err := s.NextDue(t.Context(), time.Time{}); err != nil || !due.Equal(noon) {
		t.Errorf("next due: %v, %v", due, err)
	}
}

// TestHostIsToldWhatIsUnsafe uses a handle that does not sync.
func TestHostIsToldWhatIsUnsafe(t *testing.T) {
	t.Parallel()
	for synchronous, warned := range map[string]bool{"full": false, "normal": true} {
		path := filepath.Join(t.TempDir(), "host.db")
		db, err := sql.Open("sqlite", strings.Replace(sqlite.DSN(path), "synchronous%28full%29", "synchronous("+synchronous+")", 1))
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
			t.Errorf("synchronous=%s: %d warnings, want %d:\n%s", synchronous, got, want, log.String())
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
	if st, err := r.Stats(t.Context()); err != nil || st.Outbox != 1 {
		t.Errorf("stats: %+v, %v, want 1 event", st, err)
	}
}
