//go:build unix

package sqlite_test

import (
	"bytes"
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// names returns what a folder holds.
func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestOthersLoseTheirPermissionsForTheFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "timers.db")
	var log bytes.Buffer
	opt := sqlite.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}
	for i, mode := range []os.FileMode{0o644, 0o660, 0o606, 0o600} {
		for _, suffix := range []string{"", "-wal"} {
			if err := errors.Join(os.WriteFile(path+suffix, nil, mode), os.Chmod(path+suffix, mode)); err != nil {
				t.Fatal(err)
			}
		}
		log.Reset()
		s, err := sqlite.Open(t.Context(), path, opt)
		if err != nil {
			t.Fatal(err)
		}
		for _, suffix := range []string{"", "-wal", "-shm"} {
			if info, err := os.Stat(path + suffix); err != nil || info.Mode() != 0o600 {
				t.Errorf("%v: timers.db%s: %v, %v", mode, suffix, info.Mode(), err)
			}
		}
		want := 2
		if i == 3 {
			want = 0
		}
		if n := strings.Count(log.String(), "others could read or write the database"); n != want {
			t.Errorf("%v: %d lines, want %d:\n%s", mode, n, want, log.String())
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFolderInWhichAllMayReplaceFilesIsRefused(t *testing.T) {
	t.Parallel()
	for mode, refused := range map[os.FileMode]bool{0o777: true, 0o773: true, 0o777 | os.ModeSticky: false, 0o775: false, 0o755: false, 0o700: false} {
		dir := filepath.Join(t.TempDir(), "data")
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, mode)); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "timers.db")
		link := filepath.Join(t.TempDir(), "link.db")
		if err := os.Symlink(path, link); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{path, link} {
			s, err := sqlite.Open(t.Context(), name, sqlite.Options{})
			if err == nil {
				err = s.Close()
			}
			if refused != (err != nil) || refused && !strings.Contains(err.Error(), dir) {
				t.Errorf("%v: %v, want refused: %v", mode, err, refused)
			}
			if all := names(t, dir); refused && name == path && len(all) > 0 {
				t.Errorf("%v: the folder holds %q", mode, all)
			}
		}
	}
}

// TestFolderIsMade has the last folder of the path made, for its owner alone, in one that all
// may write to as well, and none above it.
func TestFolderIsMade(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "timer-service", "timers.db")
	if err := sqlite.Usable(path); err != nil || len(names(t, dir)) > 0 {
		t.Errorf("usable: %v, and the folder holds %q", err, names(t, dir))
	}
	for range 2 {
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("the folder: %v, %v", info.Mode(), err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for what, path := range map[string]string{"there is no folder " + filepath.Join(dir, "a", "b"): filepath.Join(dir, "a", "b", "timers.db"), filepath.Join(dir, "timer-service", "timers.db") + ", which the service makes": filepath.Join(dir, "timers.db")} {
		for _, err := range []error{sqlite.Usable(path), sqlite.Create(path)} {
			if err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: %v, want %q", path, err, what)
			}
		}
	}
}

// TestFileThatIsNoneOfOursKeepsItsMode names one by mistake.
func TestFileThatIsNoneOfOursKeepsItsMode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	picture, foreign := filepath.Join(dir, "picture.jpg"), filepath.Join(dir, "places.db")
	if err := os.WriteFile(picture, []byte(strings.Repeat("no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", foreign)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), `CREATE TABLE places (id INTEGER)`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{picture, foreign} {
		before, _ := os.ReadFile(path)
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		if s, err := sqlite.Open(t.Context(), path, sqlite.Options{}); err == nil {
			s.Close()
			t.Errorf("%s was opened", path)
		} else if !strings.Contains(err.Error(), "db_path") {
			t.Errorf("%s: %v, want that the path may be wrong", path, err)
		}
		after, _ := os.ReadFile(path)
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 || !bytes.Equal(before, after) {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if all := names(t, dir); !slices.Equal(all, []string{"picture.jpg", "places.db"}) {
		t.Errorf("the folder holds %q", all)
	}
}

// TestHardLinkIsRefused opens a database under a second name, in use and not.
func TestHardLinkIsRefused(t *testing.T) {
	t.Parallel()
	dir, other := t.TempDir(), t.TempDir()
	path, link := filepath.Join(dir, "timers.db"), filepath.Join(other, "link.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path + ".lock")
	if err != nil || !strings.Contains(string(text), "inode ") {
		t.Errorf("the lock says %q, %v", text, err)
	}
	if err := os.Link(path, link); err != nil {
		t.Fatal(err)
	}
	refused := func(name string) {
		t.Helper()
		store, err := sqlite.Open(t.Context(), name, sqlite.Options{})
		if err == nil {
			store.Close()
		}
		reader, err2 := sqlite.OpenReader(t.Context(), name)
		if err2 == nil {
			reader.Close()
		}
		lock, err3 := sqlite.Hold(name)
		if err3 == nil {
			_ = lock.Unlock()
		}
		for _, err := range []error{err, err2, err3, sqlite.Backup(t.Context(), name, filepath.Join(t.TempDir(), "copy.db"))} {
			if err == nil || !strings.Contains(err.Error(), "has 2 names") || errors.Is(err, timer.ErrFatal) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	refused(link)
	if _, err := s.Schedule(t.Context(), noon, schedule("call-1")); err != nil {
		t.Errorf("the first owner: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	refused(link)
	refused(path)
	if all := names(t, other); !slices.Equal(all, []string{"link.db"}) {
		t.Errorf("beside the link: %q", all)
	}
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if s, err = sqlite.Open(t.Context(), path, sqlite.Options{}); err != nil {
		t.Fatalf("with one name again: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestNothingIsLeftBesideWhatIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "picture.jpg")
	if err := os.WriteFile(path, []byte(strings.Repeat("no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(t.Context(), path, sqlite.Options{}); !errors.Is(err, timer.ErrFatal) {
		t.Errorf("open: %v", err)
	}
	lock, err := sqlite.Hold(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Unlock(); err != nil {
		t.Error(err)
	}
	if all := names(t, dir); !slices.Equal(all, []string{"picture.jpg"}) {
		t.Errorf("the folder holds %q", all)
	}

	// A folder with the name of the log, or a link, is no file of ours.
	path = filepath.Join(dir, "timers.db")
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), path+"-wal"); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(t.Context(), path, sqlite.Options{}); err == nil || !strings.Contains(err.Error(), "timers.db-wal is not a file") {
		t.Errorf("with a link in place of the log: %v", err)
	}
}
