//go:build unix

package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/store/sqlite"
)

// another is a user, and a group, that this process is not of.
const another = 12345

// TestLockIsNoLink: what a link leads to would be overwritten.
func TestLockIsNoLink(t *testing.T) {
	t.Parallel()
	path, precious := filepath.Join(t.TempDir(), "timers.db"), filepath.Join(t.TempDir(), "precious")
	must(t, errors.Join(os.WriteFile(precious, []byte("mine"), 0o600), os.Symlink(precious, path+".lock")))
	_, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err == nil || !strings.Contains(err.Error(), path+".lock") {
		t.Errorf("open: %v, want the name of the lock", err)
	}
	if _, err := sqlite.LockOwner(path); err == nil {
		t.Error("the owner of the lock was asked through the link")
	}
	if text, err := os.ReadFile(precious); string(text) != "mine" {
		t.Errorf("the file behind the link: %q, %v", text, err)
	}
}

// TestWhatAnotherUserMadeFirstIsRefused by its name, in a folder like /tmp, and so is a folder
// in which another user may replace files. Nothing is made there.
func TestWhatAnotherUserMadeFirstIsRefused(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOTHING IS PROVEN: only root can make files of another user")
	}
	theirs := func(name string) error { return os.Lchown(name, another, another) }
	for what, make := range map[string]func(dir string) (named, path string, err error){
		"a link as the database": func(dir string) (string, string, error) {
			path := filepath.Join(dir, "timers.db")
			return path, path, errors.Join(os.Symlink(filepath.Join(dir, "else.db"), path), theirs(path))
		},
		"a link as the folder": func(dir string) (string, string, error) {
			link := filepath.Join(dir, "data")
			return link, filepath.Join(link, "timers.db"), errors.Join(os.Mkdir(filepath.Join(dir, "else"), 0o700), os.Symlink("else", link), theirs(link))
		},
		"a lock": func(dir string) (string, string, error) {
			path := filepath.Join(dir, "timers.db")
			return path + ".lock", path, errors.Join(os.WriteFile(path+".lock", nil, 0o600), theirs(path+".lock"))
		},
		"a database": func(dir string) (string, string, error) {
			path := filepath.Join(dir, "timers.db")
			return path, path, errors.Join(os.WriteFile(path, nil, 0o600), theirs(path))
		},
		"a folder": func(dir string) (string, string, error) {
			data := filepath.Join(dir, "data")
			return data, filepath.Join(data, "timers.db"), errors.Join(os.Mkdir(data, 0o755), theirs(data))
		},
		"a group": func(dir string) (string, string, error) {
			data := filepath.Join(dir, "data")
			return "group 12345", filepath.Join(data, "timers.db"), errors.Join(os.Mkdir(data, 0o700), os.Chmod(data, 0o770), os.Lchown(data, 0, another))
		},
	} {
		dir := t.TempDir()
		must(t, os.Chmod(dir, 0o777|os.ModeSticky))
		named, path, err := make(dir)
		must(t, err)
		before := names(t, dir)
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if err == nil {
			err = s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), named) {
			t.Errorf("%s: %v, want %q", what, err, named)
		}
		if usable := sqlite.Usable(path); usable == nil || !strings.Contains(usable.Error(), named) {
			t.Errorf("%s, for the doctor: %v, want %q", what, usable, named)
		}
		if after := names(t, dir); len(after) > len(before) {
			t.Errorf("%s: the folder holds %q, and before %q", what, after, before)
		}
	}
}

// TestWhatAnAdministratorMadeIsUsed by root: a folder, a file and a link of the service's user.
func TestWhatAnAdministratorMadeIsUsed(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOTHING IS PROVEN: only root can make files of another user")
	}
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	path, link := filepath.Join(data, "timers.db"), filepath.Join(dir, "link.db")
	must(t, errors.Join(os.Mkdir(data, 0o700), os.Symlink(path, link), openAt(t, path, sqlite.Options{}).Close()))
	for _, name := range []string{data, path, path + ".lock", link} {
		must(t, os.Lchown(name, another, another))
	}
	for _, name := range []string{path, link} {
		must(t, errors.Join(sqlite.Usable(name), openAt(t, name, sqlite.Options{}).Close()))
	}
}
