package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

var noon = time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)

func schedule(call timer.ServiceCallID) timer.ScheduleTimer {
	return timer.ScheduleTimer{
		Key:     timer.Key{TenantID: "acme", ServiceCallID: call},
		Version: timer.Version{TimestampMS: 1, CommandID: "command"}, DueAt: noon,
	}
}

func TestOnlyTheOwnerReadsTheFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "timers.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Schedule(t.Context(), noon, schedule("call-1")); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
		info, err := os.Stat(path + suffix)
		if err != nil {
			t.Error(err)
		} else if info.Mode() != 0o600 {
			t.Errorf("timers.db%s has mode %v, want -rw-------", suffix, info.Mode())
		}
	}
}

func TestSecondOwnerIsRefusedByName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "timers.db")
	first, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{path, link} {
		_, err = sqlite.Open(t.Context(), other, sqlite.Options{})
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("pid %d on ", os.Getpid())) ||
			!strings.Contains(err.Error(), " since 20") || errors.Is(err, timer.ErrFatal) {
			t.Fatalf("second open of %s: %v, want an error that names the owner", other, err)
		}
	}
	if _, err := first.Schedule(t.Context(), noon, schedule("call-1")); err != nil {
		t.Errorf("the first owner: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatalf("after the first owner closed: %v", err)
	}
	defer second.Close()
	if _, err := second.Get(t.Context(), schedule("call-1").Key); err != nil {
		t.Error(err)
	}
}

func TestFailedOpenLetsGoOfTheLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "timers.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // were the lock still held, the second error would be another one
		_, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if !errors.Is(err, timer.ErrFatal) {
			t.Fatalf("open of a file that is no database: %v, want ErrFatal", err)
		}
	}
	_, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "missing", "too", "timers.db"), sqlite.Options{})
	if err == nil || !strings.Contains(err.Error(), "there is no folder") {
		t.Errorf("open in a folder that is not there: %v", err)
	}
}

// TestNamesOfFiles opens files whose names mean something in a URI.
func TestNamesOfFiles(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a b.db", "a?mode=memory.db", "a#b.db", "100%.db", "a%20b.db", "ä&=+;.db", ":memory:", "file:x.db"} {
		path := filepath.Join(t.TempDir(), name)
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if _, err := s.Schedule(t.Context(), noon, schedule("call-1")); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		db, err := sql.Open("sqlite", sqlite.DSN(path))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sqlite.New(db, sqlite.Options{}).Get(t.Context(), schedule("call-1").Key); err != nil {
			t.Errorf("%q by DSN: %v", name, err)
		}
		if err := errors.Join(db.Close(), s.Close()); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if info, err := os.Stat(path); err != nil || info.Size() == 0 {
			t.Errorf("%q: %v, %v, want a file", name, info, err)
		}
	}
}

// TestDSN checks what each connection of a host is set to.
func TestDSN(t *testing.T) {
	t.Parallel()
	db := openHost(t)
	ctx := t.Context()
	for range 2 {
		conn, err := db.Conn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "busy_timeout": "5000"} {
			var got string
			if err := conn.QueryRowContext(ctx, "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
				t.Errorf("%s is %s, %v, want %s", pragma, got, err, want)
			}
		}
	}
}

// TestFileGone unlinks or replaces the file, or its log, under a store.
func TestFileGone(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(path string) error{
		"unlinked": os.Remove,
		"replaced": func(path string) error {
			if err := os.Rename(path, path+".old"); err != nil {
				return err
			}
			return os.WriteFile(path, nil, 0o600)
		},
		"log unlinked": func(path string) error { return os.Remove(path + "-wal") },
		"log replaced": func(path string) error {
			if err := os.Remove(path + "-wal"); err != nil {
				return err
			}
			return os.WriteFile(path+"-wal", nil, 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "timers.db")
			s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if err := harm(path); err != nil {
				t.Fatal(err)
			}
			_, err = s.Schedule(t.Context(), noon, schedule("call-1"))
			if !errors.Is(err, timer.ErrFatal) {
				t.Errorf("schedule: %v, want ErrFatal", err)
			}
			err = s.Update(t.Context(), func(timer.Tx) error { return nil })
			if !errors.Is(err, timer.ErrFatal) {
				t.Errorf("update: %v, want ErrFatal", err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := s.Watch(ctx); !errors.Is(err, timer.ErrFatal) {
				t.Errorf("watch: %v, want ErrFatal", err)
			}
		})
	}
}

// TestIdleServiceNotices unlinks the file of a store that is not written to.
func TestIdleServiceNotices(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(dir, "timers.db")
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		ctx, end := context.WithCancel(t.Context())
		var watches sync.WaitGroup
		watches.Go(func() {
			if err := s.Watch(ctx); err != nil {
				t.Errorf("watch until the end: %v", err)
			}
		})
		time.Sleep(time.Hour)
		end()
		watches.Wait()

		noticed := make(chan time.Time, 1)
		watches.Go(func() {
			if err := s.Watch(t.Context()); !errors.Is(err, timer.ErrFatal) {
				t.Errorf("watch: %v, want ErrFatal", err)
			}
			noticed <- time.Now()
		})
		time.Sleep(time.Hour)
		synctest.Wait()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		removed := time.Now()
		if after := (<-noticed).Sub(removed); after > time.Second {
			t.Errorf("noticed after %v", after)
		}
		watches.Wait()
	})
}

// TestFullDiskPasses fills the database, and frees space again.
func TestFullDiskPasses(t *testing.T) {
	t.Parallel()
	s := openFile(t, sqlite.Options{})
	s.DB().SetMaxOpenConns(1) // whose limit it is
	limit := func(pages int) {
		exec(t, s.DB(), fmt.Sprint(`PRAGMA max_page_count = `, pages))
	}
	limit(40)
	var applied int
	var err error
	for applied = 0; err == nil && applied < 10_000; applied++ {
		_, err = s.Schedule(t.Context(), noon, schedule(timer.ServiceCallID(fmt.Sprintf("call-%05d", applied))))
	}
	if err == nil || errors.Is(err, timer.ErrFatal) || errors.Is(err, timer.ErrInvalid) {
		t.Fatalf("schedule on a full disk: %v, want an error that may pass", err)
	}
	limit(1000)
	if _, err := s.Schedule(t.Context(), noon, schedule("call-x")); err != nil {
		t.Errorf("schedule with space again: %v", err)
	}
	if st, err := s.Stats(t.Context(), ""); err != nil || st.Scheduled != int64(applied) {
		t.Errorf("%d timers, %v, want %d: those accepted, and one", st.Scheduled, err, applied)
	}
}

// TestBusyFilePasses has another process hold the write lock for longer than a
// store waits.
func TestBusyFilePasses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "timers.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{BusyTimeout: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	other, err := sql.Open("sqlite", sqlite.DSN(path))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	tx, err := other.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Schedule(t.Context(), noon, schedule("call-1"))
	if err == nil || errors.Is(err, timer.ErrFatal) || errors.Is(err, timer.ErrInvalid) {
		t.Errorf("schedule while busy: %v, want an error that may pass", err)
	}
	if _, err := s.NextDue(t.Context(), time.Time{}); err != nil {
		t.Errorf("a read waits for a writer: %v", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Schedule(t.Context(), noon, schedule("call-1")); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestCorruptFile overwrites the pages of a file.
func TestCorruptFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "timers.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if _, err := s.Schedule(t.Context(), noon, schedule(timer.ServiceCallID(fmt.Sprint("call-", i)))); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt([]byte(strings.Repeat("\xff", int(info.Size())-4096)), 4096); err != nil { // all but the schema
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = sqlite.Open(t.Context(), path, sqlite.Options{})
	if err == nil {
		_, err = s.Schedule(t.Context(), noon, schedule("call-x"))
		defer s.Close()
	}
	if !errors.Is(err, timer.ErrFatal) {
		t.Errorf("a corrupt file: %v, want ErrFatal", err)
	}
}

func TestReaderLooksWhileAServiceRuns(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "timers.db")
	if _, err := sqlite.OpenReader(t.Context(), path); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("no file: %v, want one that says so", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the reader made the file: %v", err)
	}
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := sqlite.OpenReader(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Schedule(t.Context(), noon, schedule("call-1")); err != nil {
		t.Fatal(err)
	}
	if e, err := r.Get(t.Context(), schedule("call-1").Key); err != nil || !e.DueAt.Equal(noon) {
		t.Errorf("get: %v, %v", e, err)
	}
	if err := errors.Join(r.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if r, err = sqlite.OpenReader(t.Context(), path); err != nil { // the log is gone with its last user
		t.Fatal(err)
	}
	if st, err := r.Stats(t.Context(), ""); err != nil || st.Scheduled != 1 {
		t.Errorf("stats without a service: %+v, %v", st, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestLogShrinksAfterAReaderHasKeptIt has a transaction of another program read the file
// while much is written.
func TestLogShrinksAfterAReaderHasKeptIt(t *testing.T) {
	t.Parallel()
	const limit = 64 << 20
	path := filepath.Join(t.TempDir(), "timers.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{Durability: sqlite.Relaxed})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	foreign, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	tx, err := foreign.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := tx.QueryRowContext(t.Context(), `SELECT count(*) FROM timer_schedules`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	if _, err := s.DB().ExecContext(t.Context(), `CREATE TABLE ballast (b BLOB)`); err != nil {
		t.Fatal(err)
	}
	for sqlite.LogSize(path) < limit+1<<20 {
		if _, err := s.DB().ExecContext(t.Context(), `INSERT INTO ballast VALUES (zeroblob(8388608))`); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	for i := range 3 { // the first copies what the log has into the file, the next begins it again
		if _, err := s.Schedule(t.Context(), noon, schedule(timer.ServiceCallID(fmt.Sprint("call-", i)))); err != nil {
			t.Fatal(err)
		}
	}
	if size := sqlite.LogSize(path); size > limit {
		t.Errorf("the log has %d bytes, want %d at most", size, limit)
	}
}
