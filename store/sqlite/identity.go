package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// An identity remembers which file was opened. SQLite goes on writing to a file
// that was unlinked or replaced, and what it commits there is gone with the
// process.
type identity struct {
	mu   sync.Mutex
	path string      // empty for a database in memory
	file os.FileInfo // nil until it was looked up
}

// check returns an error that wraps [timer.ErrFatal] if the path leads to
// another file than at the first check, or to none.
func (i *identity) check(ctx context.Context, db *sql.DB) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.file == nil {
		return i.remember(ctx, db)
	}
	if i.path == "" {
		return nil
	}
	now, err := os.Stat(i.path)
	if err != nil {
		return fmt.Errorf("%w: the database file is gone: %w", timer.ErrFatal, err)
	}
	if !os.SameFile(i.file, now) {
		return fmt.Errorf("%w: the database file %s was replaced", timer.ErrFatal, i.path)
	}
	return nil
}

func (i *identity) remember(ctx context.Context, db *sql.DB) error {
	if err := db.QueryRowContext(ctx, `SELECT file FROM pragma_database_list WHERE name = 'main'`).Scan(&i.path); err != nil {
		return classify("find the database file", err)
	}
	if i.path == "" {
		return nil
	}
	file, err := os.Stat(i.path)
	if err != nil {
		return fmt.Errorf("%w: the database file is gone: %w", timer.ErrFatal, err)
	}
	i.file = file
	return nil
}

const watchInterval = time.Second

// Watch looks every second whether the file is still the one that was opened,
// so that an idle service notices too. It returns nil when ctx is done, and an
// error that wraps [timer.ErrFatal] if the file is gone or replaced.
func (s *Store) Watch(ctx context.Context) error {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		err := s.file.check(ctx, s.read)
		switch {
		case ctx.Err() != nil:
			return nil
		case isFatal(err):
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
