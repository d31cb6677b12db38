package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// owning are the ways to own a file: with [sqlite.Open], and with [sqlite.New] by Lock, as an
// app does.
func owning(t *testing.T, path string, opt sqlite.Options) map[string]func() (*sqlite.Store, error) {
	t.Helper()
	return map[string]func() (*sqlite.Store, error){
		"open": func() (*sqlite.Store, error) { return sqlite.Open(t.Context(), path, opt) },
		"lock": func() (*sqlite.Store, error) {
			db := handle(t, sqlite.DSN(path))
			must(t, sqlite.Migrate(t.Context(), db))
			s := sqlite.New(db, opt)
			_, err := s.Lock(t.Context())
			return s, err
		},
	}
}

// TestOneOwnerAFile has one own a file in each way, and others in each way and by each path.
func TestOneOwnerAFile(t *testing.T) {
	t.Parallel()
	for first := range owning(t, "", sqlite.Options{}) {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			dir, others := t.TempDir(), t.TempDir()
			path, link, folder := filepath.Join(dir, "shop.db"), filepath.Join(others, "link.db"), filepath.Join(others, "folder")
			must(t, errors.Join(os.Symlink(path, link), os.Symlink(dir, folder)))
			owner, err := owning(t, path, sqlite.Options{})[first]()
			must(t, err)
			for _, name := range []string{path, link, filepath.Join(folder, "shop.db")} {
				for how, own := range owning(t, name, sqlite.Options{}) {
					_, err := own()
					if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("pid %d on ", os.Getpid())) || !strings.Contains(err.Error(), " since 20") || errors.Is(err, timer.ErrFatal) {
						t.Errorf("%s %s: %v, want the name of the owner", how, name, err)
					}
				}
				if text, err := sqlite.LockOwner(name); err != nil || !strings.HasPrefix(text, fmt.Sprintf("pid %d on ", os.Getpid())) {
					t.Errorf("the owner of %s: %q, %v", name, text, err)
				}
			}
			scheduled(t, owner, "call-1")
			must(t, owner.Close())
			for how, own := range owning(t, link, sqlite.Options{}) {
				s, err := own()
				if err != nil {
					t.Errorf("%s after the end of the owner: %v", how, err)
					continue
				}
				must(t, s.Close())
			}
		})
	}
}

// TestUnlockedFileHasNoOwner ends the lock of an app, whose store goes on.
func TestUnlockedFileHasNoOwner(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "shop.db")
	db := handle(t, sqlite.DSN(path))
	must(t, sqlite.Migrate(t.Context(), db))
	s := sqlite.New(db, sqlite.Options{})
	unlock, err := s.Lock(t.Context())
	must(t, err)
	must(t, unlock())
	other := openAt(t, path, sqlite.Options{})
	scheduled(t, s, "call-1")
	get(t, other, "call-1")
	must(t, os.Remove(path+".lock"))
	scheduled(t, s, "call-2")
}

// TestRemovedLockIsTakenAgain where no other process was faster.
func TestRemovedLockIsTakenAgain(t *testing.T) {
	t.Parallel()
	for how := range owning(t, "", sqlite.Options{}) {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "shop.db")
			var log bytes.Buffer
			s, err := owning(t, path, sqlite.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})[how]()
			must(t, err)
			must(t, os.Remove(path+".lock"))
			scheduled(t, s, "call-1")
			if !strings.Contains(log.String(), "the lock file of the database was removed") {
				t.Errorf("the log: %s", log.String())
			}
			if other, err := sqlite.Open(t.Context(), path, sqlite.Options{}); err == nil {
				other.Close()
				t.Error("two own the file")
			}
			must(t, s.Close())
			openAt(t, path, sqlite.Options{})
		})
	}
}

// TestLostLockIsFatal removes the lock file, and has another one lock the new one: each way to
// write, and to look, ends the first owner.
func TestLostLockIsFatal(t *testing.T) {
	t.Parallel()
	for how := range owning(t, "", sqlite.Options{}) {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "shop.db")
			s, err := owning(t, path, sqlite.Options{})[how]()
			must(t, err)
			must(t, os.Remove(path+".lock"))
			other, err := sqlite.Hold(path)
			must(t, err)
			defer other.Unlock()
			_, scheduled := s.Schedule(t.Context(), noon, schedule("call-1"))
			joined := s.DB()
			tx, err := joined.BeginTx(t.Context(), nil)
			must(t, err)
			_, inTransaction := s.Join(tx).Schedule(t.Context(), noon, schedule("call-1"))
			must(t, tx.Rollback())
			for what, err := range map[string]error{"Schedule": scheduled, "in a transaction": inTransaction, "Check": s.Check(t.Context()), "Watch": s.Watch(t.Context())} {
				if !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), fmt.Sprintf("pid %d on ", os.Getpid())) {
					t.Errorf("%s: %v, want ErrFatal with the name of the owner", what, err)
				}
			}
		})
	}
}

// TestIdleOwnerTakesItsLockAgain within a second.
func TestIdleOwnerTakesItsLockAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "shop.db")
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Watch(ctx) }()
		synctest.Wait()
		must(t, os.Remove(path+".lock"))
		time.Sleep(time.Second)
		synctest.Wait()
		if _, err := sqlite.Hold(path); err == nil {
			t.Error("the file has no owner")
		}
		cancel()
		must(t, <-ended)
		must(t, s.Close())
	})
}

// TestHostsFileHasOneName: with a second one there could be another lock.
func TestHostsFileHasOneName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, second := filepath.Join(dir, "shop.db"), filepath.Join(dir, "second.db")
	must(t, migrated(t, sqlite.DSN(path)).Close())
	must(t, os.Link(path, second))
	for _, name := range []string{path, second} {
		if _, err := sqlite.New(handle(t, sqlite.DSN(name)), sqlite.Options{}).Lock(t.Context()); err == nil || !strings.Contains(err.Error(), "has 2 names") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
