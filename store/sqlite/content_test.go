package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	modernc "modernc.org/sqlite"

	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// TestContentOfAnOlderCopyIsFatal has another program restore an older copy into the file of a
// service that runs. A write of numbers would say of the copy what was true of the content before.
func TestContentOfAnOlderCopyIsFatal(t *testing.T) {
	t.Parallel()
	for name, notices := range map[string]func(t *testing.T, s *sqlite.Store) error{
		"the next write of numbers": func(t *testing.T, s *sqlite.Store) error { return s.Recovery().Advance(t.Context(), numberAt(9)) },
		"a service that is quiet": func(t *testing.T, s *sqlite.Store) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			return s.Watch(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path, older := filepath.Join(dir, "timers.db"), filepath.Join(dir, "older.db")
			s := openAt(t, path, relaxed)
			must(t, s.Recovery().Advance(t.Context(), numberAt(1)))
			other := handle(t, sqlite.DSN(path))
			exec(t, other, "VACUUM INTO '"+older+"'")
			must(t, s.Recovery().Advance(t.Context(), numberAt(2)))
			restore(t, other, older)
			if err := notices(t, s); !errors.Is(err, timer.ErrFatal) {
				t.Errorf("%v, want an error that ends the service", err)
			}
			known, err := s.Recovery().Known(t.Context())
			if must(t, err); len(known.Numbers) != 1 || known.Numbers[0].Number != 1 {
				t.Errorf("numbers %+v, want that of the copy", known.Numbers)
			}
		})
	}
}

func numberAt(n int64) timer.Number {
	return timer.Number{Broker: "broker", Log: "log", Kind: "commands", Number: n}
}

// restore copies a database over another one, page by page, as the command .restore of sqlite3 does.
func restore(t *testing.T, db *sql.DB, from string) {
	t.Helper()
	conn, err := db.Conn(t.Context())
	must(t, err)
	defer conn.Close()
	must(t, conn.Raw(func(driver any) error {
		b, err := driver.(interface {
			NewRestore(source string) (*modernc.Backup, error)
		}).NewRestore(from)
		if err != nil {
			return err
		}
		_, err = b.Step(-1)
		return errors.Join(err, b.Finish())
	}))
}
