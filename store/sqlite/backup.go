package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/event-service-agent/timer-service/internal/migration"
	"github.com/event-service-agent/timer-service/timer"
)

// Backup copies a database into another file, which must be absent or empty, also
// while a service runs on it. The copy is a snapshot, in which everything is
// that was committed before the call. It is not synced: that is the caller's part.
//
// VACUUM INTO reads in one transaction and writes a new file, so it never
// begins again, leaves out free pages, and ends with its context. SQLite's backup
// API copies pages, some at a time, and begins again from the first one after
// every write of another connection: next to a service at full speed it had not finished a
// database of 300 MB after half a minute and 750 restarts, where VACUUM INTO took
// 5 s. In one step it does not begin again and takes 2 s, but can not be interrupted,
// and it copies pages that are damaged without a word (all measured 2026-11).
func Backup(ctx context.Context, path, to string) (err error) {
	if err := present(path); err != nil {
		return err
	}
	db := connect(dsn(path, "rw", []string{busyTimeout}), 1)
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := known(version(ctx, db)); err != nil {
		return Explain(path, classify("back up "+path, err))
	}
	if to, err = filepath.Abs(to); err != nil { // which SQLite takes for no URI
		return err
	}
	info, err := touch(to)
	if err == nil && info.Size() > 0 {
		err = fmt.Errorf("%s exists and is not empty", to)
	}
	if err != nil {
		return fmt.Errorf("back up %s: %w", path, err)
	}
	_, err = db.ExecContext(ctx, `VACUUM INTO ?`, to)
	return Explain(to, classify("back up "+path, err))
}

// known returns an error unless a schema is one that this binary can read.
func known(version int64, err error) error {
	switch {
	case err != nil:
		return err
	case version == 0:
		return errors.New("it holds no timers: it is not a database of this service")
	case version > SchemaVersion:
		return migration.Newer(version, SchemaVersion)
	}
	return nil
}

// Contents are the numbers of rows in a database, counted row by row.
type Contents struct {
	SchemaVersion int64
	timer.Counts
	Outbox int64
	Parked int64
}

// Inspect checks the integrity of a database that is not in use, such as a copy,
// and counts its rows. It changes nothing. An error wraps [timer.ErrFatal] if
// the file is damaged.
func Inspect(ctx context.Context, path string) (c Contents, err error) {
	db := connect(dsn(path, "ro", []string{busyTimeout}), 1)
	defer func() { err = errors.Join(err, db.Close()) }()
	doing := "inspect " + path
	var found string // "ok", or the first fault
	if err := db.QueryRowContext(ctx, `PRAGMA integrity_check(1)`).Scan(&found); err != nil {
		return c, classify(doing, err)
	}
	if found != "ok" {
		return c, fmt.Errorf("%w: %s: %s", timer.ErrFatal, doing, found)
	}
	c.SchemaVersion, err = version(ctx, db)
	if err := known(c.SchemaVersion, err); err != nil {
		return c, classify(doing, err)
	}
	err = db.QueryRowContext(ctx, sqlInspect).Scan(&c.Scheduled, &c.Reached, &c.Expired, &c.Canceled, &c.Outbox, &c.Parked)
	return c, classify(doing, err)
}

// Hold takes the lock of an existing file, so that no service starts on it until
// it is unlocked. If a service has the lock the error names it.
func Hold(path string) (*Lock, error) {
	if err := present(path); err != nil {
		return nil, err
	}
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	return takeLock(path, slog.New(slog.DiscardHandler))
}
