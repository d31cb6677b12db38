package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/event-service-agent/timer-service/store/sqlite"
)

// A file is a SQLite database.
type file struct {
	dir, path string
}

func newSQLite(ctx context.Context) (Database, error) {
	dir, err := os.MkdirTemp("", "timer-bench-")
	if err != nil {
		return nil, err
	}
	f := &file{dir: dir, path: filepath.Join(dir, "timers.db")}
	s, err := sqlite.Open(ctx, f.path, sqlite.Options{Durability: sqlite.Strict}) // which migrates
	if err != nil {
		return nil, errors.Join(err, f.Drop())
	}
	return f, s.Close()
}

// Settings name the file.
func (f *file) Settings() map[string]string { return map[string]string{"TIMER_DB_PATH": f.path} }

// OpenReader opens the file for reading.
func (f *file) OpenReader(ctx context.Context) (Reader, error) { return sqlite.OpenReader(ctx, f.path) }

// Fill puts timers in, and makes the indexes when they are all there. It leaves
// nothing to write to the disk.
func (f *file) Fill(ctx context.Context, load Load, progress io.Writer) (err error) {
	s, err := sqlite.Open(ctx, f.path, sqlite.Options{Durability: sqlite.Relaxed})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	restore, err := dropIndexes(ctx, s.DB(), query("sqlite/indexes"))
	if err != nil {
		return fmt.Errorf("fill the database: %w", err)
	}
	if err := load.steps(progress, func(first, last int) error {
		_, err := s.DB().ExecContext(ctx, query("sqlite/fill"),
			first, last, load.Tenant, load.Tenants, load.From.UnixMilli(), load.seconds())
		return err
	}); err != nil {
		return fmt.Errorf("fill the database: %w", err)
	}
	if err := restore(progress); err != nil {
		return err
	}
	if _, err := s.DB().ExecContext(ctx, query("sqlite/count"), load.Tenant, load.Timers, load.Tenants); err != nil {
		return fmt.Errorf("count the timers: %w", err)
	}
	if _, err := s.DB().ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		return err
	}
	return toDisk(f.path)
}

// toDisk syncs a file, which a relaxed store does not: or the first commits that
// are measured would wait for all that was written before.
func toDisk(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Usage is none: the service itself does the work.
func (f *file) Usage(context.Context) (time.Duration, error) { return 0, nil }

// Drop removes the file.
func (f *file) Drop() error { return os.RemoveAll(f.dir) }

// dropIndexes drops the indexes of the timers, of which the statement returns name
// and text. Restore makes them again, which takes a fraction of what it takes to
// fill them in random order.
func dropIndexes(ctx context.Context, db *sql.DB, text string) (restore func(progress io.Writer) error, err error) {
	rows, err := db.QueryContext(ctx, text)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var names, texts []string
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			return nil, err
		}
		names, texts = append(names, name), append(texts, text)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return nil, err
	}
	for _, name := range names {
		if _, err := db.ExecContext(ctx, "DROP INDEX "+name); err != nil {
			return nil, err
		}
	}
	return func(progress io.Writer) error {
		for i, text := range texts {
			fmt.Fprintln(progress, "makes the index", names[i])
			if _, err := db.ExecContext(ctx, text); err != nil {
				return fmt.Errorf("make the index %s: %w", names[i], err)
			}
		}
		return nil
	}, nil
}
