//go:build unix

package sqlite_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// names returns the names in a folder.
func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
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
			must(t, errors.Join(os.WriteFile(path+suffix, nil, mode), os.Chmod(path+suffix, mode)))
		}
		log.Reset()
		s := openAt(t, path, opt)
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
		must(t, s.Close())
		must(t, os.Remove(path))
	}
}

func TestFolderInWhichAllMayReplaceFilesIsRefused(t *testing.T) {
	t.Parallel()
	for mode, refused := range map[os.FileMode]bool{0o777: true, 0o773: true, 0o777 | os.ModeSticky: false, 0o775: false, 0o755: false, 0o700: false} {
		dir := filepath.Join(t.TempDir(), "data")
		must(t, errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, mode)))
		path := filepath.Join(dir, "timers.db")
		link := filepath.Join(t.TempDir(), "link.db")
		must(t, os.Symlink(path, link))
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
	must(t, os.Chmod(dir, 0o777))
	path := filepath.Join(dir, "timer-service", "timers.db")
	if err := sqlite.Usable(path); err != nil || len(names(t, dir)) > 0 {
		t.Errorf("usable: %v, and the folder holds %q", err, names(t, dir))
	}
	for range 2 {
		s := openAt(t, path, sqlite.Options{})
		if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("the folder: %v, %v", info.Mode(), err)
		}
		must(t, s.Close())
	}
	for what, path := range map[string]string{"there is no folder " + filepath.Join(dir, "a", "b"): filepath.Join(dir, "a", "b", "timers.db"), filepath.Join(dir, "timer-service", "timers.db") + ", which the service makes": filepath.Join(dir, "timers.db")} {
		for _, err := range []error{sqlite.Usable(path), sqlite.Create(path)} {
			if err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: %v, want %q", path, err, what)
			}
		}
	}
}

// TestFileThatIsNoneOfOursKeepsItsMode names one by mistake, twice: no file is left next to it, and
// no lock on it.
func TestFileThatIsNoneOfOursKeepsItsMode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	picture, foreign := filepath.Join(dir, "picture.jpg"), filepath.Join(dir, "places.db")
	must(t, os.WriteFile(picture, []byte(strings.Repeat("no database ", 100)), 0o600))
	db := handle(t, foreign)
	exec(t, db, `CREATE TABLE places (id INTEGER)`)
	must(t, db.Close()) // which ends its log
	for _, path := range []string{picture, foreign} {
		before, _ := os.ReadFile(path)
		must(t, os.Chmod(path, 0o644))
		if _, err := sqlite.Open(t.Context(), path, sqlite.Options{}); err == nil || !strings.Contains(err.Error(), "db_path") {
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
	s := openAt(t, path, sqlite.Options{})
	text, err := os.ReadFile(path + ".lock")
	if err != nil || !strings.Contains(string(text), "inode ") {
		t.Errorf("the lock says %q, %v", text, err)
	}
	must(t, os.Link(path, link))
	refused := func(name string) {
		t.Helper()
		_, opened := sqlite.Open(t.Context(), name, sqlite.Options{})
		_, read := sqlite.OpenReader(t.Context(), name)
		_, held := sqlite.Hold(name)
		for _, err := range []error{opened, read, held, sqlite.Backup(t.Context(), name, filepath.Join(t.TempDir(), "copy.db"))} {
			if err == nil || !strings.Contains(err.Error(), "has 2 names") || errors.Is(err, timer.ErrFatal) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	refused(link)
	scheduled(t, s, "call-1") // the first owner goes on
	must(t, s.Close())
	refused(link)
	refused(path)
	if all := names(t, other); !slices.Equal(all, []string{"link.db"}) {
		t.Errorf("next to the link: %q", all)
	}
	must(t, os.Remove(link))
	openAt(t, path, sqlite.Options{}) // with one name again
}

func TestALinkInPlaceOfTheLogIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "timers.db")
	must(t, os.Symlink(filepath.Join(dir, "elsewhere"), path+"-wal"))
	if _, err := sqlite.Open(t.Context(), path, sqlite.Options{}); err == nil || !strings.Contains(err.Error(), "timers.db-wal is not a file") {
		t.Errorf("with a link in place of the log: %v", err)
	}
}

// besides makes the test binary another process, which wants a file for itself.
const otherProcess = "TIMER_TEST_SQLITE_OTHER_PROCESS"

// TestTakesTheFile is that process: it asks for the lock that SQLite takes before it
// deletes the log, when the last connection is closed. It gets it if no process has a
// connection.
func TestTakesTheFile(t *testing.T) {
	path := os.Getenv(otherProcess)
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
// it is backed up, once onto itself in vain. The process must still have its lock: otherwise
// another one takes it for gone, and deletes the log with the last commits.
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
				other.Env = append(os.Environ(), otherProcess+"="+path)
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
