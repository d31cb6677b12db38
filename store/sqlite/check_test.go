//go:build linux

package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// opened returns a store on a file system of its own, of one MiB and some, which
// only root can have.
func opened(t *testing.T) (_ *sqlite.Store, dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=8m,mode=700"); err != nil {
		if os.Getenv("TIMER_TEST_REQUIRE") != "" {
			t.Fatalf("mount a small file system: %v", err)
		}
		t.Skipf("SKIPPED: mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	s, err := sqlite.Open(t.Context(), filepath.Join(dir, "timers.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, dir
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
	if err := unix.Statfs(dir, &free); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filler, make([]byte, int64(free.Bavail)*free.Bsize-1<<19), 0o600); err != nil { //nolint:gosec // 8 MiB
		t.Fatal(err)
	}
	check("with a full file system", "is full: ")
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	check("with space again", "")
	path := filepath.Join(dir, "timers.db")
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); !errors.Is(err, timer.ErrFatal) {
		t.Errorf("without its file: %v, want ErrFatal", err)
	}
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	check("with its file again", "")
}
