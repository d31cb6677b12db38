package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/store/sqlite"
)

// ErrNoBackup says that the database is not a SQLite file.
var ErrNoBackup = errors.New("PostgreSQL has tools of its own: pg_dump for a copy, continuous archiving for any point in time (point-in-time recovery); backup copies a SQLite file")

// A Contents is the content of a copy, in numbers.
type Contents = sqlite.Contents

// Backup copies the SQLite database into a file, see [WriteWhole], whether a service runs or
// not, and checks the copy. It returns the content and the size of the copy. The configuration
// must name a SQLite database.
func Backup(ctx context.Context, cfg config.Config, to string) (Contents, int64, error) {
	return backup(ctx, cfg, to, sqlite.Inspect)
}

func backup(ctx context.Context, cfg config.Config, to string, inspect func(context.Context, string) (Contents, error)) (c Contents, bytes int64, err error) {
	bytes, err = WriteWhole(to, func(f *os.File) (err error) {
		if err = sqlite.Backup(ctx, cfg.DBPath, f.Name()); err != nil {
			return err
		}
		if c, err = inspect(ctx, f.Name()); err != nil {
			err = fmt.Errorf("check the copy: %w", err)
		}
		return err
	})
	return c, bytes, err
}

// Export writes all timers and the messages that wait, see [store.Export]. No service may run on the database.
func Export(ctx context.Context, cfg config.Config, now time.Time, w io.Writer, progress store.Progress) (sum store.Summary, err error) {
	if cfg.DBURL.Empty() {
		held, err := sqlite.Hold(cfg.DBPath)
		if err != nil {
			return sum, err
		}
		defer func() { _ = held.Unlock() }() // which the end of the process does, too
	}
	from, err := Reader(ctx, cfg)
	if err != nil {
		return sum, err
	}
	if err = idle(ctx, cfg); err == nil {
		sum, err = store.Export(ctx, from, now, w, progress)
	}
	return sum, errors.Join(cmp.Or(err, idle(ctx, cfg)), from.Close()) // an instance may have started
}

// Import adds an export to the database, which must be empty and is created if there
// is none, see [store.Exported.Import]. The file is checked before: of one that is wrong no
// database is made. No service may run on it.
func Import(ctx context.Context, cfg config.Config, now time.Time, from io.ReadSeeker, progress store.Progress) (sum store.Summary, err error) {
	x, err := store.Check(ctx, from, progress)
	if err != nil {
		return sum, err
	}
	s, err := openDatabase(ctx, cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return sum, err
	}
	if err = idle(ctx, cfg); err == nil {
		sum, err = x.Import(ctx, s, now)
	}
	if errors.Is(err, store.ErrNotEmpty) {
		err = fmt.Errorf("%s holds timers, events or messages already: import into a new database", storeName(cfg))
	}
	return sum, errors.Join(cmp.Or(err, idle(ctx, cfg)), s.Close()) // one that started meanwhile has fired timers
}

// idle returns an error if instances run on a PostgreSQL database. Unlike a SQLite file it
// has no lock that keeps instances from starting later.
func idle(ctx context.Context, cfg config.Config) error {
	if cfg.DBURL.Empty() {
		return nil
	}
	r, err := postgres.OpenReader(ctx, cfg.DBURL.Reveal())
	if err != nil {
		return err
	}
	n, err := r.Running(ctx)
	if err == nil && n > 0 {
		err = fmt.Errorf("instances run on the database (%d): stop all of them first", n)
	}
	return errors.Join(err, r.Close())
}
