package service

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.uber.org/fx"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/internal/symptom"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/telemetry"
)

// copyName is the name of a copy, with its time. Other files in the folder of the backups are
// left alone.
const copyName = "timers-20060102T150405Z.db"

// Backups copies the SQLite database into a folder at intervals, and keeps the newest copies.
type Backups struct {
	cfg   config.Config
	log   *slog.Logger
	began time.Time

	inspect func(ctx context.Context, path string) (Contents, error)
	list    func(dir string, now time.Time) ([]string, error)

	mu       sync.Mutex
	failures int64
	failure  error     // of the last copy; nil if it was good
	at       time.Time // of the newest copy after the last try; zero if there was none
	bytes    int64     // its size
}

func newBackups(cfg config.Config, log *slog.Logger) *Backups {
	return &Backups{cfg: cfg, log: log, began: time.Now(), inspect: sqlite.Inspect, list: copies}
}

// keepBackups makes copies until the stop. It returns nil if the configuration does not ask
// for copies.
func keepBackups(lc fx.Lifecycle, sd fx.Shutdowner, log *slog.Logger, cfg config.Config, _ closingStore) *Backups {
	if cfg.BackupEvery == 0 {
		return nil
	}
	b := newBackups(cfg, log)
	app.KeepRunning(lc, sd, log, "backups", b.Run, nil, closeTimeout)
	return b
}

// Run makes a copy whenever the newest one is older than backup_every, until ctx is done, and
// returns nil. After a failure it tries again in a tenth of that time.
func (b *Backups) Run(ctx context.Context) error {
	for wait := b.after(nil, time.Now()); pause.For(ctx, wait); {
		err := b.copy(ctx, time.Now())
		if ctx.Err() != nil {
			return nil
		}
		if wait = b.after(err, time.Now()); err != nil {
			b.log.ErrorContext(ctx, "the backup failed, the copies before it stay", "error", err, "retry_in", wait)
		}
	}
	return nil
}

// after notes how the last try ended and which copy is the newest, and returns how long to wait
// before the next try. If the copy is good and an older one can't be removed, the next copy is not
// made sooner: copies that stay would fill the disk ten times as fast.
//
// It alone reads the folder for that, before it takes the mutex: a folder on a network may hang, and
// health and metrics must not wait for it.
func (b *Backups) after(failure error, now time.Time) (wait time.Duration) {
	all, _ := b.list(b.cfg.BackupDir, now) // the next copy will report the same error
	var at time.Time
	var bytes int64
	if len(all) > 0 {
		newest := all[len(all)-1]
		at, _ = time.Parse(copyName, filepath.Base(newest))
		if info, err := os.Stat(newest); err == nil {
			bytes = info.Size()
		}
		wait = b.cfg.BackupEvery - now.Sub(at)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at, b.bytes, b.failure = at, bytes, failure; failure != nil {
		b.failures++
		wait = max(wait, b.cfg.BackupEvery/10, time.Second)
	}
	return wait
}

// copy makes one copy, and removes the oldest if there are too many.
func (b *Backups) copy(ctx context.Context, now time.Time) error {
	dir := b.cfg.BackupDir
	unfinished, err := filepath.Glob(filepath.Join(dir, "timers-*.db"+partial)) // of processes that were killed
	if err = errors.Join(err, remove(unfinished)); err != nil {
		return err
	}
	name := filepath.Join(dir, now.UTC().Format(copyName))
	_, bytes, err := backup(ctx, b.cfg, name, b.inspect)
	if err != nil {
		return err
	}
	b.log.InfoContext(ctx, "backed up the database", "file", name, "bytes", bytes, "took", time.Since(now).Round(time.Millisecond))
	all, err := copies(dir, now)
	return errors.Join(err, remove(all[:max(0, len(all)-b.cfg.BackupKeep)]))
}

// copies returns the paths of the good copies in a folder, the oldest first.
func copies(dir string, now time.Time) ([]string, error) {
	files, err := os.ReadDir(dir)
	var all []string
	for _, f := range files {
		if at, err := time.Parse(copyName, f.Name()); err == nil && !at.After(now) && at.Format(copyName) == f.Name() && f.Type().IsRegular() {
			all = append(all, filepath.Join(dir, f.Name()))
		}
	}
	slices.Sort(all)
	return all, err
}

// remove removes files, of which others may remove some meanwhile.
func remove(paths []string) (err error) {
	for _, path := range paths {
		if failure := os.Remove(path); !errors.Is(failure, fs.ErrNotExist) {
			err = errors.Join(err, failure)
		}
	}
	return err
}

// status returns the state of the copies, for metrics.
func (b *Backups) status() telemetry.Backups {
	b.mu.Lock()
	defer b.mu.Unlock()
	return telemetry.Backups{Age: time.Since(cmp.Or(b.at, b.began)), Every: b.cfg.BackupEvery, Bytes: b.bytes, Failures: b.failures}
}

// check describes the state of the copies. It is never red, because timers fire without
// copies.
func (b *Backups) check() app.Check {
	s := b.status()
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.Age <= 2*s.Every {
		return app.Check{Part: symptom.BackupOld.Part}
	}
	why := ""
	if b.failure != nil {
		why = ": " + b.failure.Error()
	}
	return found(symptom.BackupOld, s.Age.Round(time.Second), why, b.cfg.BackupDir)
}
