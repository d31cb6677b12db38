package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gofrs/flock"

	"github.com/event-service-agent/timer-service/internal/pause"
)

// A lock that another process has is asked for again, for a tenth of a second.
const (
	lockTries = 10
	lockPause = 10 * time.Millisecond
)

// takeLock takes the advisory lock beside a database file, and signs it. The
// lock ends with the process; the file stays.
func takeLock(path string) (*flock.Flock, error) {
	name := path + ".lock"
	l := flock.New(name, flock.SetPermissions(0o600), flock.SetFlag(os.O_CREATE|os.O_RDWR))
	taken, err := try(l)
	if err != nil {
		return nil, fmt.Errorf("lock the database: %w", err)
	}
	if !taken {
		owner, _ := os.ReadFile(name) // for the message only
		return nil, fmt.Errorf("the database %s belongs to another process (%s): stop that one, or set another db_path", path, owner)
	}
	if err := sign(name, path); err != nil {
		return nil, errors.Join(fmt.Errorf("sign the lock of the database: %w", err), l.Unlock())
	}
	return l, nil
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
	return os.WriteFile(name, text, 0o600)
}
