package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/internal/trust"
	"github.com/event-service-agent/timer-service/timer"
)

// A lock that another process has is asked for again, for a tenth of a second.
const (
	lockTries = 10
	lockPause = 10 * time.Millisecond
)

// lockSuffix is how the name of a lock file ends.
const lockSuffix = ".lock"

// errInUse means that another process has the lock.
var errInUse = errors.New("stop the owner, or use another file")

// A Lock keeps others away from a database file, in this process and elsewhere. It is an advisory
// lock on a file next to the database: one on the database itself would end the locks that SQLite
// has on it in this process (https://sqlite.org/howtocorrupt.html). The database has one name,
// without links, so the lock file has one, too. The lock ends with the process; the file stays.
type Lock struct {
	path string // of the database
	log  *slog.Logger

	mu   sync.Mutex
	file *flock.Flock
}

// takeLock takes the lock of a database file, and signs it. The path has no links.
func takeLock(path string, log *slog.Logger) (*Lock, error) {
	name := path + lockSuffix
	l := &Lock{path: path, log: log, file: flock.New(name, flock.SetPermissions(0o600), flock.SetFlag(os.O_CREATE|os.O_RDWR|trust.NoFollow))}
	taken, err := try(l.file)
	if err != nil {
		return nil, fmt.Errorf("lock the database: %w", err)
	}
	if !taken {
		owner, _ := os.ReadFile(name) // for the message only
		return nil, fmt.Errorf("the database %s is in use (%s): %w", path, owner, errInUse)
	}
	info, err := l.file.Stat()
	if err == nil {
		err = trust.File(name, info) // another user could remove it, or lock it first
	}
	if err == nil {
		err = sign(name, path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("sign the lock of the database: %w", err), l.Unlock())
	}
	return l, nil
}

// Unlock ends the lock. It does nothing the second time.
func (l *Lock) Unlock() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Unlock()
}

// check takes the lock again if its file was removed or replaced. If another process was
// faster the error wraps [timer.ErrFatal].
func (l *Lock) check() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.file.Locked() {
		return nil // an app that ended has unlocked it
	}
	locked, err := l.file.Stat()
	if err != nil {
		return err
	}
	if now, err := os.Stat(l.file.Path()); err == nil && os.SameFile(locked, now) {
		return nil
	}
	again, err := takeLock(l.path, l.log)
	if errors.Is(err, errInUse) {
		return fmt.Errorf("%w: the lock file was removed while this process ran: %w", timer.ErrFatal, err)
	}
	if err != nil {
		return err
	}
	l.log.Warn("the lock file of the database was removed or replaced: locked again; it must stay", "file", l.file.Path())
	err = l.file.Unlock()
	l.file = again.file
	return err
}

// try takes a lock, unless another process has it for longer than it takes to check
// it, see [LockOwner].
func try(l *flock.Flock) (taken bool, err error) {
	for range lockTries {
		if taken, err = l.TryLock(); taken || err != nil {
			break
		}
		pause.For(context.Background(), lockPause)
	}
	return taken, err
}

// sign writes into the file of a lock which process has it, since when, and for which database.
func sign(name, path string) error {
	host, _ := os.Hostname()                       // for the message only
	since := time.Now().UTC().Format(time.RFC3339) //nolint:forbidigo // for people
	text := fmt.Appendf(nil, "pid %d on %s since %s", os.Getpid(), host, since)
	if db, err := os.Stat(path); err == nil {
		if o, known := ownerOf(db); known {
			text = fmt.Appendf(text, ", %v", o)
		}
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_TRUNC|trust.NoFollow, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
