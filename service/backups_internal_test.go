package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/internal/logbuf"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A backedUp is a database that is backed up each minute, of which two copies are kept.
type backedUp struct {
	t     *testing.T
	cfg   config.Config
	store *sqlite.Store
	log   logbuf.Buffer
	made  []Contents // of the copies that passed their check

	inspect func(ctx context.Context, path string) (Contents, error)
}

func newBackedUp(t *testing.T) *backedUp {
	t.Helper()
	b := &backedUp{t: t, cfg: config.Default()}
	b.cfg.DBPath, b.cfg.BackupDir = filepath.Join(t.TempDir(), "timers.db"), t.TempDir()
	b.cfg.BackupEvery, b.cfg.BackupKeep = time.Minute, 2
	var err error
	if b.store, err = sqlite.Open(t.Context(), b.cfg.DBPath, sqlite.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.store.Close() })
	return b
}

// start makes copies until stop is called.
func (b *backedUp) start() (running *Backups, stop func()) {
	ctx, cancel := context.WithCancel(b.t.Context())
	running = newBackups(b.cfg, slog.New(slog.NewTextHandler(&b.log, &slog.HandlerOptions{Level: slog.LevelWarn})))
	inspect := running.inspect
	if b.inspect != nil {
		inspect = b.inspect
	}
	running.inspect = func(ctx context.Context, path string) (Contents, error) {
		c, err := inspect(ctx, path)
		if err == nil {
			b.made = append(b.made, c)
		}
		return c, err
	}
	var ended sync.WaitGroup
	ended.Go(func() {
		if err := running.Run(ctx); err != nil {
			b.t.Error(err)
		}
	})
	return running, func() {
		cancel()
		ended.Wait()
	}
}

func (b *backedUp) schedule(n int) {
	b.t.Helper()
	now := time.Now()
	_, err := b.store.Schedule(b.t.Context(), now, timer.ScheduleTimer{
		Key:     timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(fmt.Sprint("call-", n))},
		Version: timer.Version{TimestampMS: now.UnixMilli(), CommandID: fmt.Sprint("command-", n)}, DueAt: now.Add(time.Hour),
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// files returns the names in the folder of the copies.
func (b *backedUp) files() (names []string) {
	b.t.Helper()
	files, err := os.ReadDir(b.cfg.BackupDir)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, f := range files {
		names = append(names, f.Name())
	}
	return names
}

func (b *backedUp) has(want ...string) {
	b.t.Helper()
	if got := b.files(); !slices.Equal(got, want) {
		b.t.Errorf("there are %q, want %q", got, want)
	}
}

// after lets time pass.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// TestBackupsUnderLoad has a timer scheduled each second, and restores the newest copy.
func TestBackupsUnderLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBackedUp(t)
		if err := os.WriteFile(filepath.Join(b.cfg.BackupDir, "timers-1.db"), nil, 0o600); err != nil { // not ours
			t.Fatal(err)
		}
		b.schedule(0)
		running, stop := b.start()
		for n := range 4*60 + 30 {
			after(time.Second)
			b.schedule(n + 1)
		}
		stop()
		b.has("timers-1.db", "timers-20000101T000300Z.db", "timers-20000101T000400Z.db")
		if len(b.made) != 5 || b.log.Take() != "" {
			t.Fatalf("%d copies were made", len(b.made))
		}
		for i, c := range b.made {
			if least := int64(60 * i); c.Scheduled < least || c.Scheduled > least+2 {
				t.Errorf("copy %d holds %d timers", i, c.Scheduled)
			}
		}
		newest := filepath.Join(b.cfg.BackupDir, "timers-20000101T000400Z.db")
		info, err := os.Stat(newest)
		must(t, err)
		if s := running.status(); s.Age != 30*time.Second || s.Failures != 0 || s.Bytes != info.Size() {
			t.Errorf("status %+v", s)
		}
		if c := running.check(); c.Red || c.Reason != "" {
			t.Errorf("check %+v", c)
		}

		restored := filepath.Join(t.TempDir(), "timers.db")
		must(t, os.Rename(newest, restored))
		s, err := sqlite.Open(t.Context(), restored, sqlite.Options{})
		must(t, err)
		defer s.Close()
		if _, err := s.Get(t.Context(), timer.Key{TenantID: "acme", ServiceCallID: "call-239"}); err != nil {
			t.Error(err)
		}
	})
}

func TestARestartDoesNotMultiplyBackups(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBackedUp(t)
		for range 5 {
			_, stop := b.start()
			after(5 * time.Second)
			stop()
		}
		b.has("timers-20000101T000000Z.db")
		after(time.Hour)
		_, stop := b.start()
		synctest.Wait()
		stop()
		b.has("timers-20000101T000000Z.db", "timers-20000101T010025Z.db")
	})
}

// TestACopyOfTheFutureIsNoBackup has one that was made while the clock was a year ahead, and
// one that a killed process left.
func TestACopyOfTheFutureIsNoBackup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBackedUp(t)
		b.cfg.BackupKeep = 1
		const future = "timers-20010101T000000Z.db"
		must(t, os.WriteFile(filepath.Join(b.cfg.BackupDir, future), []byte("a copy"), 0o600))
		for _, name := range []string{"timers-19991231T235900Z.db.partial", "mine.partial"} {
			must(t, os.WriteFile(filepath.Join(b.cfg.BackupDir, name), []byte("half"), 0o600))
		}
		running, stop := b.start()
		after(90 * time.Second)
		b.has("mine.partial", "timers-20000101T000100Z.db", future)
		if age := running.status().Age; age > time.Minute || age < 0 {
			t.Errorf("the newest copy is %v old", age)
		}
		must(t, os.RemoveAll(b.cfg.DBPath))
		after(time.Hour)
		if running.check().Reason == "" {
			t.Error("the check says all is well after an hour without a copy")
		}
		stop()
	})
}

// TestBackupsGoOnAfterAFailure takes the folder away and brings it back.
func TestBackupsGoOnAfterAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBackedUp(t)
		away := b.cfg.BackupDir + ".away"
		must(t, os.Rename(b.cfg.BackupDir, away))
		running, stop := b.start()
		defer stop()
		after(time.Second)
		if c := running.check(); c.Reason != "" {
			t.Errorf("check %+v after a second", c)
		}
		after(2 * time.Minute)
		if c := running.check(); c.Red || !strings.Contains(c.Reason, "no such file") || !strings.Contains(c.Advice, b.cfg.BackupDir) {
			t.Errorf("check %+v", c)
		}
		if s := running.status(); s.Failures < 2 || s.Age < 2*time.Minute {
			t.Errorf("status %+v", s)
		}
		if text := b.log.Take(); !strings.Contains(text, "the backup failed") {
			t.Errorf("log %q", text)
		}
		must(t, os.Rename(away, b.cfg.BackupDir))
		after(10 * time.Second)
		if c := running.check(); c.Reason != "" || len(b.files()) != 1 {
			t.Errorf("check %+v, files %q", c, b.files())
		}
	})
}

// TestADamagedBackupReplacesNoGoodOne has the check fail from the second copy on.
func TestADamagedBackupReplacesNoGoodOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBackedUp(t)
		b.cfg.BackupKeep = 1
		b.schedule(1)
		inspect, good := sqlite.Inspect, true
		b.inspect = func(ctx context.Context, path string) (c Contents, err error) {
			if c, err = inspect(ctx, path); !good {
				err = errors.Join(err, errors.New("row 7 is missing from an index"))
			}
			good = false
			return c, err
		}
		running, stop := b.start()
		after(70 * time.Second)
		stop()
		b.has("timers-20000101T000000Z.db")
		if s := running.status(); s.Failures != 2 || s.Age != 70*time.Second {
			t.Errorf("status %+v", s)
		}
		if text := b.log.Take(); !strings.Contains(text, "level=ERROR") || !strings.Contains(text, "row 7 is missing from an index") {
			t.Errorf("log %q", text)
		}
	})
}

// TestACopyThatStaysBringsNoNewOneSooner: an older copy may not be removable.
func TestACopyThatStaysBringsNoNewOneSooner(t *testing.T) {
	t.Parallel()
	b := newBackedUp(t)
	running, now, failure := newBackups(b.cfg, slog.New(slog.DiscardHandler)), time.Now().UTC().Truncate(time.Second), errors.New("operation not permitted")
	if wait := running.after(failure, now); wait != 6*time.Second {
		t.Errorf("no copy was made, and the next try is in %v", wait)
	}
	must(t, os.WriteFile(filepath.Join(b.cfg.BackupDir, now.Format(copyName)), nil, 0o600))
	if wait := running.after(failure, now); wait != time.Minute {
		t.Errorf("a copy was made, and the next one is made in %v", wait)
	}
	if err := remove([]string{filepath.Join(b.cfg.BackupDir, "gone")}); err != nil {
		t.Error(err)
	}
}

// TestAFolderOfBackupsThatHangsStopsNoCheck has a folder on a network whose server is away.
func TestAFolderOfBackupsThatHangsStopsNoCheck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBackedUp(t)
		running, back := newBackups(b.cfg, slog.New(slog.DiscardHandler)), make(chan struct{})
		running.list = func(string, time.Time) ([]string, error) {
			<-back
			return nil, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = running.Run(ctx) }()
		after(time.Hour)
		began := time.Now()
		if c := running.check(); !strings.Contains(c.Reason, "1h0m0s") || running.status().Age != time.Hour {
			t.Errorf("check %+v, status %+v", c, running.status())
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("checks and metrics wait for %v", took)
		}
		cancel()
		close(back)
	})
}
