package timer

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// Known is the state of a database at a start.
type Known struct {
	Numbers []Number // the last one of each log and kind
	Empty   bool     // the database holds no timer, event or message, like a new one
}

// A Recoverer is the part of a store by which a start adds to the database the messages that
// only the broker has.
type Recoverer interface {
	// Known returns the numbers in the database.
	Known(ctx context.Context) (Known, error)

	// Unpublished returns when the oldest event was appended that waits in the outbox and is not
	// deferred; zero if there is none.
	Unpublished(ctx context.Context) (time.Time, error)

	// Advance writes numbers, in a transaction of their own: the last one that is written of a
	// log and kind counts. Without numbers it writes nothing. The caller has asked the broker
	// before the call, so all that the numbers stand for was committed before. If the database
	// does not have the history any more that this process knows, the error wraps [ErrFatal],
	// and nothing is written.
	Advance(ctx context.Context, numbers ...Number) error

	// Fired applies events that were published. The timer of an event becomes Reached, or
	// Expired, with the times of the event, whatever its version is, and the event leaves
	// the outbox, deferred or not. If there is no timer, Fired adds one, so that no
	// command fires it again. A timer whose command is more than keep newer than the event
	// stays as it is, because it was scheduled after the fired one had been purged. Fired
	// returns how many timers it changed. Events may come in any order, and repeatedly.
	Fired(ctx context.Context, keep time.Duration, events ...DueTimeReached) (changed int, err error)

	// Alone runs fn while no other instance uses the database. If other instances run, they
	// have read the missing messages, and Alone returns nil without calling fn. If
	// another instance is within Alone, it returns an error and does not wait. The context
	// of fn ends when another instance may use the database.
	Alone(ctx context.Context, fn func(context.Context) error) error
}

// Unprotected describes the waiting timers whose commands the broker does not keep any more,
// or never kept. If the database were lost, only a backup would have them.
type Unprotected struct {
	Timers int64     // how many
	More   bool      // there may be more, since not all waiting timers were examined
	Oldest time.Time // when the oldest of their commands was sent; zero if that is not known
	Before time.Time // their commands are older than this; zero if the broker keeps nothing
	At     time.Time // when they were counted; zero if they were not yet
}

// String describes them in a sentence, for people.
func (u Unprotected) String() string {
	since := u.Before.UTC().Format(time.RFC3339)
	switch {
	case u.At.IsZero():
		return "not known yet"
	case u.Before.IsZero():
		return "backup only: the broker keeps nothing that was read, so no timer that waits is protected by it"
	case u.Timers == 0 && u.More:
		return fmt.Sprintf("the broker still has the commands of the timers that were looked at (since %s); there are too many to look at all", since)
	case u.Timers == 0:
		return fmt.Sprintf("the broker still has the commands of all timers that wait (since %s)", since)
	}
	n := strconv.FormatInt(u.Timers, 10)
	if u.More {
		n += " or more"
	}
	return fmt.Sprintf("timers older than the messages that the broker still has (since %s): %s; the oldest is of %s; only a backup protects them",
		since, n, u.Oldest.UTC().Format(time.RFC3339))
}
