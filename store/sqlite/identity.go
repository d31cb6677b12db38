package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// An identity remembers which file was opened. SQLite goes on writing to a file
// that was unlinked or replaced, and what it commits there is gone with the
// process.
type identity struct {
	path string      // empty for a database in memory
	file os.FileInfo // nil for a database in memory
}

// identify finds the file of a database.
func identify(ctx context.Context, db *sql.DB) (i identity, err error) {
	err = db.QueryRowContext(ctx, `SELECT file FROM pragma_database_list WHERE name = 'main'`).Scan(&i.path)
	if err == nil && i.path != "" {
		i.file, err = stat(i.path)
	}
	return i, err
}

// check returns an error that wraps [timer.ErrFatal] if the path leads to
// another file than it did, or to none.
func (i identity) check() error {
	if i.path == "" {
		return nil
	}
	now, err := stat(i.path)
	if err == nil && !os.SameFile(i.file, now) {
		err = fmt.Errorf("%w: the database file %s was replaced", timer.ErrFatal, i.path)
	}
	return err
}

func stat(path string) (os.FileInfo, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: the database file is gone: %w", timer.ErrFatal, err)
	case err != nil:
		return nil, fmt.Errorf("look for the database file: %w", err)
	}
	return info, nil
}

const watchInterval = time.Second

// Watch looks every second whether the file is still the one that was opened,
// so that an idle service notices too. It returns nil when ctx is done, and an
// error that wraps [timer.ErrFatal] if the file is gone or replaced, or its
// schema newer than this binary.
func (s *Store) Watch(ctx context.Context) error {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		ready, err := s.ready(ctx)
		if err == nil {
			err = ready.file.check()
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, timer.ErrFatal):
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
