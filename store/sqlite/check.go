package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/event-service-agent/timer-service/internal/trust"
	"github.com/event-service-agent/timer-service/timer"
)

// lockTimeout is how long [Store.Check] waits for the write lock.
const lockTimeout = 700 * time.Millisecond

// slowCommit is how long a transaction of this process may take before a check minds it: a large
// one on a slow disk is no fault.
const slowCommit = 5 * time.Second

// errLocked says that transactions wait for one that does not end.
var errLocked = errors.New("another program holds the write lock of the file, or a transaction does not end")

// Check returns the fault that keeps the database from working, as far as it can be found
// without a write: the file is gone or replaced (then the error wraps
// [timer.ErrFatal]), it can't be read, its file system is full or read-only, or
// another program holds the write lock.
func (s *Store) Check(ctx context.Context) error {
	const doing = "check the database"
	ready, err := s.ready(ctx)
	if err != nil {
		return classify(doing, err)
	}
	for _, check := range []func() error{
		func() error { return s.intact(ready) },
		func() error { return access(ready.file.path) },
		func() error { return space(ready.file.path) },
		func() error { _, err := s.NextDue(ctx, time.Time{}); return err },
		func() error { return s.lockable(ctx) },
	} {
		if err := check(); err != nil {
			return classify(doing, err)
		}
	}
	return nil
}

// lockable takes the write lock and lets it go, which writes nothing. It returns an
// error if it does not get it in time, and this process commits nothing meanwhile and is in no
// transaction that has it.
func (s *Store) lockable(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	before := s.commits.Load()
	locked := make(chan error, 1)
	go func() { // SQLite waits for the lock for longer, and can't be interrupted; Close waits for it
		locked <- s.transact(waiting, func(context.Context, *transaction) error { return nil })
	}()
	select {
	case err := <-locked:
		if waiting.Err() == nil {
			return err
		}
	case <-waiting.Done():
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case s.commits.Load() > before:
		return nil
	}
	if since := s.writes.Load(); since == nil || time.Since(*since) > slowCommit { //nolint:forbidigo // of this process, not of timers
		return errLocked
	}
	return nil
}

// quickCheckSize is the size from which on a file is not checked before the first use. The
// check of a larger one would delay the start by more than a few seconds.
const quickCheckSize = 1 << 30

// wayOut tells an operator what to do about a damaged file. It is never repaired in place.
const wayOut = "the file is damaged: restore a backup, or move the file and its -wal and -shm away, and start: what NATS or Kafka still has is recovered, and RabbitMQ needs --takeover"

// quickCheck returns an error that wraps [timer.ErrFatal] if a small file is damaged. It reads
// the whole file, and does not compare the indexes with the rows, as [Inspect] does.
func (r *Reader) quickCheck(ctx context.Context, path string) error {
	if info, err := os.Stat(path); err != nil || info.Size() >= quickCheckSize {
		return err
	}
	const doing = "check the file"
	var found string // "ok", or the first fault
	if err := r.reads.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&found); err != nil {
		return classify(doing, err)
	}
	if found != "ok" {
		return fmt.Errorf("%w: %s: %s: %s", timer.ErrFatal, doing, wayOut, found)
	}
	return nil
}

// LockOwner returns the text by which the process that has the lock of a database file names
// itself, or "" if no process has it. To find out, it takes the lock for a moment. That does
// not disturb [Open], which tries for longer.
func LockOwner(path string) (string, error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	name := path + lockSuffix
	if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	l := flock.New(name, flock.SetFlag(os.O_RDONLY|trust.NoFollow))
	free, err := l.TryRLock()
	if err != nil {
		return "", fmt.Errorf("check the lock of the database: %w", err)
	}
	if free {
		return "", l.Unlock()
	}
	owner, err := os.ReadFile(name)
	return string(owner), err
}
