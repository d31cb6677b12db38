package sqlite

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/event-service-agent/timer-service/timer"
)

// classify says what was being done and which kind of error it is: what the
// database refuses for good is invalid, a broken file is fatal, all else may
// pass.
func classify(doing string, err error) error {
	if err == nil {
		return nil
	}
	code, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return fmt.Errorf("%s: %w", doing, err)
	}
	switch {
	case code.Code() == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
		return timer.Invalid(timer.ReasonRefused, "%s: there is no such service call", doing)
	case code.Code()&0xff == sqlite3.SQLITE_CORRUPT, code.Code()&0xff == sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%w: %s: %w", timer.ErrFatal, doing, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

func isFatal(err error) bool   { return errors.Is(err, timer.ErrFatal) }
func isRefused(err error) bool { return errors.Is(err, timer.ErrInvalid) }
