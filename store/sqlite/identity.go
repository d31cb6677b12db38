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

// An identity remembers which files were opened. SQLite goes on writing to a
// file that was unlinked or replaced, and what it commits there is gone with the
// process.
type identity struct {
	path string
	file os.FileInfo
	log  os.FileInfo // the write-ahead log; nil if it may come and go
}

// logSuffix is what SQLite names a write-ahead log by.
const logSuffix = "-wal"

// LogSize returns how many bytes the write-ahead log of a database file has, 0 if there is
// none.
func LogSize(path string) int64 {
	info, err := os.Stat(path + logSuffix)
	if err != nil {
		return 0
	}
	return info.Size()
}

// sqlFile asks for the path of a database, without links.
const sqlFile = `SELECT file FROM pragma_database_list WHERE name = 'main'`

// identify finds the file of a database.
func identify(ctx context.Context, db *sql.DB) (i identity, err error) {
	err = db.QueryRowContext(ctx, sqlFile).Scan(&i.path)
	if err == nil {
		i.file, err = stat(i.path)
	}
	return i, err
}

// keepLog remembers the log too. It stays while there is a connection; only who
// owns the file knows that there always is one.
func (i *identity) keepLog() (err error) {
	i.log, err = stat(i.path + logSuffix)
	return err
}

// check returns an error that wraps [timer.ErrFatal] if a path leads to another
// file than it did, or to none.
func (i identity) check() error {
	err := same(i.path, i.file)
	if err == nil && i.log != nil {
		err = same(i.path+logSuffix, i.log)
	}
	return err
}

func same(path string, was os.FileInfo) error {
	now, err := stat(path)
	if err == nil && !os.SameFile(was, now) {
		err = fmt.Errorf("%w: the database file %s was replaced", timer.ErrFatal, path)
	}
	return err
}

func stat(path string) (os.FileInfo, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: the database file is gone: %w", timer.ErrFatal, err)
	case err != nil:
		return nil, fmt.Errorf("stat the database file: %w", err)
	}
	return info, nil
}

const watchInterval = time.Second

// Watch checks every second whether the file is still the one that was opened,
// so that an idle service notices too. It returns nil when ctx is done, and an
// error that wraps [timer.ErrFatal] if the file is gone or replaced.
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
