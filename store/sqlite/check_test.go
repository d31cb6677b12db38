//go:build linux

package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// opened returns a store on a file system of its own, of one MiB and some, which
// only root can have.
func opened(t *testing.T) (_ *sqlite.Store, dir string) {
	t.Helper()
	dir = t.TempDir()
	mount(t, "tmpfs", dir, "tmpfs", 0, "size=8m,mode=700")
	return openAt(t, filepath.Join(dir, "timers.db"), sqlite.Options{}), dir
}

// mount mounts a file system until the test ends.
func mount(t *testing.T, source, target, kind string, flags uintptr, data string) {
	t.Helper()
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		if os.Getenv("TIMER_TEST_REQUIRE") != "" {
			t.Fatalf("mount %s: %v", source, err)
		}
		t.Skipf("SKIPPED: mount %s: %v", source, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(target, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// TestCheckFindsWhatIsWrong breaks what the file stands on, and repairs it.
func TestCheckFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	s, dir := opened(t)
	check := func(when, want string) {
		t.Helper()
		if err := s.Check(t.Context()); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", when, err, want)
		}
	}
	check("at first", "")
	filler := filepath.Join(dir, "filler")
	var free unix.Statfs_t
	must(t, unix.Statfs(dir, &free))
	if err := os.WriteFile(filler, make([]byte, int64(free.Bavail)*free.Bsize-1<<19), 0o600); err != nil { //nolint:gosec // 8 MiB
		t.Fatal(err)
	}
	check("with a full file system", "is full: ")
	must(t, os.Remove(filler))
	check("with space again", "")
	path := filepath.Join(dir, "timers.db")
	must(t, os.Rename(path, path+".away"))
	if err := s.Check(t.Context()); !errors.Is(err, timer.ErrFatal) {
		t.Errorf("without its file: %v, want ErrFatal", err)
	}
	must(t, os.Rename(path+".away", path))
	check("with its file again", "")
}

// TestLockOfAnotherProgramPasses has another one hold the write lock for longer than a store
// waits.
func TestLockOfAnotherProgramPasses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "timers.db")
	s, impatient := openAt(t, path, sqlite.Options{}), sqlite.New(handle(t, strings.Replace(sqlite.DSN(path), "5000", "1", 1)), sqlite.Options{})
	must(t, impatient.Prepare(t.Context()))
	tx, err := handle(t, sqlite.DSN(path)).BeginTx(t.Context(), nil)
	must(t, err)
	for range 2 { // the second finds that the first still waits
		if err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "write lock") {
			t.Errorf("check while it is held: %v", err)
		}
	}
	if _, err := impatient.Schedule(t.Context(), noon, schedule("call-1")); err == nil || errors.Is(err, timer.ErrFatal) || errors.Is(err, timer.ErrInvalid) {
		t.Errorf("schedule while it is held: %v, want an error that may pass", err)
	}
	if _, err := s.NextDue(t.Context(), time.Time{}); err != nil {
		t.Errorf("a read waits for a writer: %v", err)
	}
	must(t, tx.Rollback())
	scheduled(t, s, "call-1") // waits for the lock
	must(t, s.Check(t.Context()))
}

// TestCheckDoesNotMindALongQueue has transactions wait for each other for longer than a
// check takes. One that does not end is found.
func TestCheckDoesNotMindALongQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openAt(t, filepath.Join(t.TempDir(), "timers.db"), sqlite.Options{})
		var writers sync.WaitGroup
		write := func(took time.Duration) {
			writers.Go(func() {
				if err := s.Update(t.Context(), func(timer.Tx) error { time.Sleep(took); return nil }); err != nil {
					t.Error(err)
				}
			})
		}
		for range 10 {
			write(300 * time.Millisecond)
		}
		synctest.Wait()
		if err := s.Check(t.Context()); err != nil {
			t.Errorf("with a long queue: %v", err)
		}
		writers.Wait()
		write(time.Hour)
		synctest.Wait()
		for range 3 { // as a large commit does on a slow disk
			if err := s.Check(t.Context()); err != nil {
				t.Errorf("with a transaction that takes long: %v", err)
			}
		}
		time.Sleep(5 * time.Second)
		if err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "does not end") {
			t.Errorf("with a transaction that does not end: %v", err)
		}
		writers.Wait()
		if err := s.Check(t.Context()); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// TestFileThatIsMountedAloneIsRefused mounts a database as containers do with
// -v app.db:/data/app.db: its log would stay in the container, with what was acked last.
func TestFileThatIsMountedAloneIsRefused(t *testing.T) {
	t.Parallel()
	outside, inside := filepath.Join(t.TempDir(), "app.db"), filepath.Join(t.TempDir(), "with a space", "app.db")
	for _, path := range []string{outside, inside} {
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, nil, 0o600))
	}
	mount(t, outside, inside, "", unix.MS_BIND, "")
	link := filepath.Join(t.TempDir(), "link.db")
	must(t, os.Symlink(inside, link))
	for _, path := range []string{inside, link} {
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if err == nil {
			_ = s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "mount the folder") || !strings.Contains(err.Error(), inside) {
			t.Errorf("%s: %v", path, err)
		}
	}
	db := handle(t, sqlite.DSN(inside))
	must(t, sqlite.Migrate(t.Context(), db))
	if err := sqlite.New(db, sqlite.Options{}).Prepare(t.Context()); !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), "mount the folder") {
		t.Errorf("a host's handle: %v", err)
	}
}
