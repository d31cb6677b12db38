package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/gofrs/flock"
)

var sqlRegisteredBefore = query("registered_before")

// Version returns the version of SQLite, which is part of this binary.
func (r *Reader) Version(ctx context.Context) (string, error) {
	var version string
	err := r.reads.QueryRowContext(ctx, `SELECT sqlite_version()`).Scan(&version)
	return "SQLite " + version, classify("find the version of the database", err)
}

// RegisteredBefore returns how many timers wait whose command is older than a time, by
// its producer's clock, at most a limit. It takes longer the more timers wait: give it a deadline.
func (r *Reader) RegisteredBefore(ctx context.Context, before time.Time, limit int) (n int64, err error) {
	err = r.reads.QueryRowContext(ctx, sqlRegisteredBefore, before.UnixMilli(), limit).Scan(&n)
	return n, classify("count timers by their age", err)
}

// LockOwner returns what the process that has the lock of a database file calls itself,
// or "" if none has it. It asks for the lock for a moment, together with
// others that ask: [Open] tries for longer than that.
func LockOwner(path string) (string, error) {
	name := path + ".lock"
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	l := flock.New(name, flock.SetFlag(os.O_RDONLY))
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
