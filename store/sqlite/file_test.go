package sqlite_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

func TestOnlyTheOwnerReadsTheFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "timers.db")
	s := openAt(t, path, sqlite.Options{})
	scheduled(t, s, "call-1")
	for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
		info, err := os.Stat(path + suffix)
		if err != nil {
			t.Error(err)
		} else if info.Mode() != 0o600 {
			t.Errorf("timers.db%s has mode %v, want -rw-------", suffix, info.Mode())
		}
	}
}

func TestFailedOpenLetsGoOfTheLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "timers.db")
	must(t, os.WriteFile(path, []byte(strings.Repeat("no database ", 100)), 0o600))
	for range 2 { // were the lock still held, the second error would be another one
		_, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if !errors.Is(err, timer.ErrFatal) {
			t.Fatalf("open of a file that is no database: %v, want ErrFatal", err)
		}
	}
	held, err := sqlite.Hold(path)
	must(t, err)
	must(t, held.Unlock())
	_, err = sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "missing", "too", "timers.db"), sqlite.Options{})
	if err == nil || !strings.Contains(err.Error(), "there is no folder") {
		t.Errorf("open in a folder that is not there: %v", err)
	}
}

// TestNamesOfFiles opens files whose names mean something in a URI.
func TestNamesOfFiles(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a b.db", "a?mode=memory.db", "a#b.db", "100%.db", "a%20b.db", "ä&=+;.db", ":memory:", "file:x.db"} {
		path := filepath.Join(t.TempDir(), name)
		scheduled(t, openAt(t, path, sqlite.Options{}), "call-1")
		get(t, sqlite.New(handle(t, sqlite.DSN(path)), sqlite.Options{}), "call-1")
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
		must(t, err)
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
			s := openAt(t, path, sqlite.Options{})
			must(t, harm(path))
			_, err := s.Schedule(t.Context(), noon, schedule("call-1"))
			for what, err := range map[string]error{
				"schedule": err, "update": s.Update(t.Context(), func(timer.Tx) error { return nil }), "watch": s.Watch(t.Context()),
			} {
				if !errors.Is(err, timer.ErrFatal) {
					t.Errorf("%s: %v, want ErrFatal", what, err)
				}
			}
		})
	}
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
	scheduled(t, s, "call-x") // with space again
	if st, err := s.Stats(t.Context(), ""); err != nil || st.Scheduled != int64(applied) {
		t.Errorf("%d timers, %v, want %d: those accepted, and one", st.Scheduled, err, applied)
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
	s := openAt(t, path, sqlite.Options{})
	r, err := sqlite.OpenReader(t.Context(), path)
	must(t, err)
	scheduled(t, s, "call-1")
	if e, err := r.Get(t.Context(), schedule("call-1").Key); err != nil || !e.DueAt.Equal(noon) {
		t.Errorf("get: %v, %v", e, err)
	}
	must(t, errors.Join(r.Close(), s.Close()))
	r, err = sqlite.OpenReader(t.Context(), path) // the log is gone with its last user
	must(t, err)
	if st, err := r.Stats(t.Context(), ""); err != nil || st.Scheduled != 1 {
		t.Errorf("stats without a service: %+v, %v", st, err)
	}
	must(t, r.Close())
}

// TestLogShrinksAfterAReaderHasKeptIt has a transaction of another program read the file
// while much is written.
func TestLogShrinksAfterAReaderHasKeptIt(t *testing.T) {
	t.Parallel()
	const limit = 64 << 20
	path := filepath.Join(t.TempDir(), "timers.db")
	s := openAt(t, path, relaxed)
	foreign := handle(t, path)
	tx, err := foreign.BeginTx(t.Context(), nil)
	must(t, err)
	var n int
	must(t, tx.QueryRowContext(t.Context(), `SELECT count(*) FROM timer_schedules`).Scan(&n))
	exec(t, s.DB(), `CREATE TABLE ballast (b BLOB)`)
	for sqlite.LogSize(path) < limit+1<<20 {
		exec(t, s.DB(), `INSERT INTO ballast VALUES (zeroblob(8388608))`)
	}
	must(t, tx.Rollback())
	for _, call := range calls(3) { // the first copies what the log has into the file, the next begins it again
		scheduled(t, s, call)
	}
	if size := sqlite.LogSize(path); size > limit {
		t.Errorf("the log has %d bytes, want at most %d", size, limit)
	}
}

// later is when the timer is due whose row, or entry of an index, is damaged.
var later = noon.Add(time.Hour)

// damagedFile makes a file with a timer due at noon and one due later, of which it
// changes the due time to before noon: in its row, or in the index.
func damagedFile(t *testing.T, inRow bool) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "timers.db")
	s := openAt(t, path, sqlite.Options{})
	one, other := schedule("call-1"), schedule("call-2")
	other.DueAt = later
	if _, err := s.Schedule(t.Context(), noon, one, other); err != nil {
		t.Fatal(err)
	}
	must(t, s.Close())
	damage(t, path, later, func(page []byte) bool { return bytes.Contains(page, []byte("command")) == inRow })
	return path
}

// damage changes a due time in a file, in the page that is chosen.
func damage(t *testing.T, path string, due time.Time, chosen func(page []byte) bool) {
	t.Helper()
	const page = 4096
	file, err := os.ReadFile(path)
	must(t, err)
	changed := 0
	for at := 0; at < len(file); at += page {
		of := file[at : at+page]
		i := bytes.Index(of, number(due))
		if i < 0 || !chosen(of) {
			continue
		}
		of[i+1] ^= 1 << 7 // hundreds of years
		changed++
	}
	if changed != 1 {
		t.Fatalf("changed %d due times, want 1", changed)
	}
	must(t, os.WriteFile(path, file, 0o600))
}

// number is a time as SQLite has it.
func number(at time.Time) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(at.UnixMilli()))[2:]
}

// TestAnIndexThatDiffersIsFatal: the due time of the row counts, so nothing fires early.
func TestAnIndexThatDiffersIsFatal(t *testing.T) {
	t.Parallel()
	for name, inRow := range map[string]bool{"the row": true, "the index": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openAt(t, damagedFile(t, inRow), sqlite.Options{})
			var err error
			for _, now := range []time.Time{noon, later} {
				calls, failed := reachAt(t, s, now, 10)
				if err = errors.Join(err, failed); slices.Contains(calls, "call-2") {
					t.Errorf("fired %v at %v", calls, now)
				}
			}
			if !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), "restore a backup, or move the file") {
				t.Errorf("%v, want ErrFatal with the way out", err)
			}
		})
	}
}

// TestADamagedFileIsRefusedWithTheWayOut: quick_check finds what no statement reads.
func TestADamagedFileIsRefusedWithTheWayOut(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "timers.db")
	s := openAt(t, path, sqlite.Options{})
	exec(t, s.DB(), `PRAGMA ignore_check_constraints = on`)
	scheduled(t, s, "call-1")
	exec(t, s.DB(), `UPDATE timer_schedules SET state = 'Scheduler'`)
	must(t, s.Close())
	_, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), "restore a backup, or move the file") || !strings.Contains(err.Error(), "CHECK constraint failed") {
		t.Errorf("%v", err)
	}
}
