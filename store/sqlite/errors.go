package sqlite

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/event-service-agent/timer-service/timer"
)

// classify says what was being done, and wraps [timer.ErrFatal] if the file can
// no longer be trusted. All other errors of a database may pass.
func classify(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, timer.ErrFatal):
		return err
	}
	switch code := codeOf(err); {
	case code&0xff == sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%w: %s: see that db_path is right; if it is, %s: %w", timer.ErrFatal, doing, wayOut, err)
	case code&0xff == sqlite3.SQLITE_CORRUPT:
		return fmt.Errorf("%w: %s: %s: %w", timer.ErrFatal, doing, wayOut, err)
	case code == sqlite3.SQLITE_READONLY_DBMOVED:
		return fmt.Errorf("%w: %s: %w", timer.ErrFatal, doing, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// Explain returns the error, or, if SQLite could not open or write the file at a
// path because the system does not permit it, what the system says.
func Explain(path string, err error) error {
	switch codeOf(err) & 0xff {
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
		if why := access(path); why != nil {
			return why
		}
	}
	return err
}

// isConstraint reports whether a statement was refused because of what it would
// have written. The transaction goes on without it.
func isConstraint(err error) bool { return codeOf(err)&0xff == sqlite3.SQLITE_CONSTRAINT }

// isMissing reports whether a row was refused because what it refers to is not
// there.
func isMissing(err error) bool { return codeOf(err) == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY }

// codeOf returns SQLite's extended result code, or 0.
func codeOf(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()
	}
	return 0
}
