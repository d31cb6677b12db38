//go:build unix

package sqlite_test

import (
	"errors"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/event-service-agent/timer-service/store/sqlite"
)

// besides makes the test binary another process, which wants a file for itself.
const beside = "TIMER_TEST_SQLITE_BESIDE"

// TestTakesTheFile is that process: it asks for the lock that SQLite takes before it
// deletes the log, when the last connection is closed. It gets it if no process has a
// connection.
func TestTakesTheFile(t *testing.T) {
	path := os.Getenv(beside)
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	const sharedFirst, sharedSize = 0x40000000 + 2, 510 // https://sqlite.org/src/file/src/os.h
	err = unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: sharedFirst, Len: sharedSize})
	if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) {
		t.Fatalf("TAKEN: %v", err)
	}
}

// TestStartKeepsTheLocksOfTheProcess: while a host has the file open, a store starts on it, and
// it is backed up, once onto itself in vain. The process must still have its lock, else another
// one takes it for gone, and deletes the log with all that was committed last.
func TestStartKeepsTheLocksOfTheProcess(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(path string) error{
		"create": sqlite.Create,
		"open": func(path string) error {
			s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
			if err != nil {
				return err
			}
			return errors.Join(s.Check(t.Context()), s.Close())
		},
		"back up": func(path string) error {
			if err := sqlite.Backup(t.Context(), path, path); err == nil || !strings.Contains(err.Error(), "exists and is not empty") {
				t.Errorf("a backup onto the database itself: %v", err)
			}
			return sqlite.Backup(t.Context(), path, path+".copy")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "timers.db")
			host := handle(t, sqlite.DSN(path))
			taken := func() bool {
				other := osexec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTakesTheFile$")
				other.Env = append(os.Environ(), beside+"="+path)
				out, err := other.CombinedOutput()
				if err != nil && !strings.Contains(string(out), "TAKEN") {
					t.Fatalf("%v\n%s", err, out)
				}
				return err != nil
			}
			must(t, sqlite.Migrate(t.Context(), host))
			if taken() {
				t.Fatal("an open database has no lock")
			}
			must(t, start(path))
			if taken() {
				t.Error("the lock is gone")
			}
			exec(t, host, `CREATE TABLE orders (id INTEGER PRIMARY KEY)`)
			must(t, host.Close())
			if !taken() {
				t.Error("a closed database has a lock")
			}
		})
	}
}
