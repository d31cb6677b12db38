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

	reading chan struct{} // full while the folder is read for status

	mu       sync.Mutex
	failures int64
	failure  error     // of the last copy; nil if it was good
	at       time.Time // of the newest copy when the folder was read; zero if there was none
	bytes    int64     // its size
}

func newBackups(cfg config.Config, log *slog.Logger) *Backups {
	return &Backups{cfg: cfg, log: log, began: time.Now(), inspect: sqlite.Inspect, list: copies, reading: make(chan struct{}, 1)}
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
	wait := b.due(time.Now())
	for pause.For(ctx, wait) {
		err := b.copy(ctx, time.Now())
		if ctx.Err() != nil {
			return nil
		}
		b.mu.Lock()
		b.failure = err
		if wait = b.after(err, time.Now()); err != nil {
			b.failures++
			b.log.ErrorContext(ctx, "the backup failed, the copies before it stay", "error", err, "retry_in", wait)
		}
		b.mu.Unlock()
	}
	return nil
}

// due returns how long to wait before the next copy, judged by the newest existing one.
func (b *Backups) due(now time.Time) time.Duration {
	at, _ := b.newest(now)
	if at.IsZero() {
		return 0
	}
	return b.cfg.BackupEvery - now.Sub(at)
}

// after returns how long to wait after a copy that was made, or that failed. If the copy is good and
// an older one can't be removed, the next copy is not made sooner: copies that stay would fill the
// disk ten times as fast.
func (b *Backups) after(failure error, now time.Time) time.Duration {
	wait := b.due(now)
	if failure != nil {
		wait = max(wait, b.cfg.BackupEvery/10, time.Second)
	}
	return wait
}

// newest returns the time and the size of the newest copy, or zero if there is none.
func (b *Backups) newest(now time.Time) (at time.Time, bytes int64) {
	all, _ := b.list(b.cfg.BackupDir, now) // the next copy will report the same error
	if len(all) == 0 {
		return at, 0
	}
	path := all[len(all)-1]
	at, _ = time.Parse(copyName, filepath.Base(path))
	if info, err := os.Stat(path); err == nil {
		bytes = info.Size()
	}
	return at, bytes
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

// readTimeout is how long the folder may take to say which copies there are.
const readTimeout = 100 * time.Millisecond

// read reads which copy is the newest. A folder on a network may hang: then health and metrics use
// the last answer, and the copy gets older.
func (b *Backups) read() {
	select {
	case b.reading <- struct{}{}:
	default: // it hangs
		return
	}
	done := make(chan struct{})
	go func() {
		defer func() { <-b.reading }()
		defer close(done)
		at, bytes := b.newest(time.Now())
		b.mu.Lock()
		defer b.mu.Unlock()
		b.at, b.bytes = at, bytes
	}()
	select {
	case <-done:
	case <-time.After(readTimeout):
	}
}

// status returns the state of the copies, for metrics.
func (b *Backups) status() telemetry.Backups {
	b.read()
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
