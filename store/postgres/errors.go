package postgres

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// wayOut says what to do about a damaged database, which is never repaired in place.
const wayOut = "the database is damaged: restore a backup, or use an empty database, and start: the messages that the broker still has are recovered"

// fatal holds the codes of the errors that say that tables or columns do not exist. See
// https://www.postgresql.org/docs/current/errcodes-appendix.html.
var fatal = map[string]string{
	"42P01": "undefined table",
	"42703": "undefined column",
	"3F000": "invalid schema name",
}

// classify adds the text doing to an error, and wraps [timer.ErrFatal] if the database
// is missing or damaged (corrupted data or a corrupted index). All other errors may be
// temporary: a lost connection, a server that starts or stops, a deadlock, a lock that took
// too long, a full disk.
func classify(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, timer.ErrFatal), errors.Is(err, timer.ErrInvalid):
		return err
	}
	// It is the lock of a row, not of a table.
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == lockNotAvailable && e.Where != "" {
		return fmt.Errorf("%w: %s: %w", timer.ErrLocked, doing, err)
	}
	if code := codeOf(err); code == "XX001" || code == "XX002" {
		return fmt.Errorf("%w: %s: %s: %w", timer.ErrFatal, doing, wayOut, err)
	} else if _, ok := fatal[code]; ok {
		return fmt.Errorf("%w: %s: %w", timer.ErrFatal, doing, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// refused returns an error that says why the database refuses a row for good, or err itself
// if it does not. A row is refused by constraints (class 23), for values that no column takes
// (class 22), and by triggers of the host.
func refused(err error, groups []*store.Group) error {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || !strings.HasPrefix(e.Code, "23") && !strings.HasPrefix(e.Code, "22") && e.Code != "P0001" {
		return err
	}
	of := "a command"
	if len(groups) == 1 {
		of = groups[0].Key.String()
	}
	return refusal{timer.Invalid(timer.ReasonRefused, "%s: %s", of, e.Message), err}
}

// A refusal is a [timer.InvalidError] that keeps the server's error.
type refusal struct {
	error
	cause error
}

func (r refusal) Unwrap() []error { return []error{r.error, r.cause} }

// missing is the code of the error for a row whose service call does not exist.
const missing = "23503"

// isMissing reports whether a row was refused because its service call does not exist.
func isMissing(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == missing && e.ConstraintName == referenceName
}

// codeOf returns the server's code of an error, or "".
func codeOf(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// IsAbsent reports whether an error of Open says that the server can't be reached or is not
// ready, or set read-only, so that waiting may help. A server that refuses the connection is not absent.
func IsAbsent(err error) bool {
	if errors.Is(err, errFenced) {
		return true
	}
	if code := codeOf(err); code != "" {
		return strings.HasPrefix(code, "08") || strings.HasPrefix(code, "57P") || code == "53300"
	}
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	_, network := errors.AsType[net.Error](err)
	return connecting || network
}
