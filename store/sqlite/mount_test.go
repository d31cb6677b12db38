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

// TestFileThatIsMountedAloneIsRefused mounts a database as containers do with
// -v app.db:/data/app.db: its log would stay in the container, with what was acked last.
func TestFileThatIsMountedAloneIsRefused(t *testing.T) {
	t.Parallel()
	outside, inside := filepath.Join(t.TempDir(), "app.db"), filepath.Join(t.TempDir(), "with a space", "app.db")
	for _, path := range []string{outside, inside} {
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, nil, 0o600))
	}
	if err := unix.Mount(outside, inside, "", unix.MS_BIND, ""); err != nil {
		if os.Getenv("TIMER_TEST_REQUIRE") != "" {
			t.Fatalf("mount a file: %v", err)
		}
		t.Skipf("SKIPPED: mount a file: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(inside, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
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
