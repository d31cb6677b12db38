package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/gofrs/flock"

	"github.com/event-service-agent/timer-service/timer"
)

var sqlRegisteredBefore = query("registered_before")

// Version returns the version of SQLite, which is part of this binary.
func (r *Reader) Version(ctx context.Context) (string, error) {
	var version string
	err := r.reads.QueryRowContext(ctx, `SELECT sqlite_version()`).Scan(&version)
	return "SQLite " + version, classify("find the version of the database", err)
}

// RegisteredBefore counts the timers that wait whose command is older than a time, by
// its producer's clock. It looks at the limit oldest rows, those of finished timers too,
// which takes about a second a million: give it a deadline.
func (r *Reader) RegisteredBefore(ctx context.Context, before time.Time, limit int) (u timer.Unprotected, err error) {
	var rows int
	var oldest sql.NullInt64
	err = r.reads.QueryRowContext(ctx, sqlRegisteredBefore, before.UnixMilli(), limit).Scan(&rows, &u.Timers, &oldest)
	u.Before, u.More, u.Oldest = before.UTC(), rows == limit, instant(oldest)
	return u, classify("count timers by their age", err)
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
