package sqlite_test

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/internal/logbuf"
	"github.com/event-service-agent/timer-service/store/sqlite"
)

// TestNewDatabaseIsLogged opens a file that is new, and again.
func TestNewDatabaseIsLogged(t *testing.T) {
	t.Parallel()
	path, log := filepath.Join(t.TempDir(), "timers.db"), new(logbuf.Buffer)
	for range 2 {
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{Log: slog.New(slog.NewTextHandler(log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		id, name, err := s.Identity(t.Context())
		if err != nil || strings.Count(log.String(), "made a new database") != 1 || !strings.Contains(log.String(), id) {
			t.Errorf("%v, and the log says %s", err, log)
		}
		if !strings.HasPrefix(name, "sqlite "+path+" on ") {
			t.Errorf("the name is %q", name)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBackupIsTheSameDatabase restores a backup: what the broker knows it by is in it.
func TestBackupIsTheSameDatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var ids [2]string
	for i, name := range []string{"timers.db", "backup.db"} {
		s, err := sqlite.Open(t.Context(), filepath.Join(dir, name), sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if ids[i], _, err = s.Identity(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if err := sqlite.Backup(t.Context(), filepath.Join(dir, name), filepath.Join(dir, "backup.db")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if ids[0] != ids[1] {
		t.Errorf("the database is %s, its backup %s", ids[0], ids[1])
	}
}
