package timer

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// A Position says how much of a log of the broker is in the database. A log is, for example,
// a stream of NATS or a partition of Kafka. The numbers are the broker's, and never fall.
type Position struct {
	Log       string // name of the log, "@", and an id that a later log of that name does not have; at most 512 bytes
	Committed int64  // all commands up to this number are in the database, or are dead letters; 0 if that is not known
	Observed  int64  // highest number that was received or published; the timers of the events up to it are Reached; 0 if there is none
}

// Noted holds the positions that are in a database.
type Noted struct {
	Positions []Position
	Empty     bool // the database holds no timer, event or position, like a new one
}

// A Recoverer is the part of a store that recovers a database from the broker: one that was
// lost, or that is older than the broker's logs say.
type Recoverer interface {
	// CommitPositions makes later transactions write positions: each one that applies
	// commands of [Store], or deletes or defers events of the outbox. A transaction calls
	// positions before it writes anything. Numbers in the database never fall, and a
	// transaction without a higher number writes no position. The function is called
	// often and must not block.
	CommitPositions(positions func() []Position)

	// Noted returns the positions in the database.
	Noted(ctx context.Context) (Noted, error)

	// Fired applies events that were published. The timer of an event becomes Reached, or
	// Expired, with the times of the event, whatever its version is, and the event leaves
	// the outbox, deferred or not. If there is no timer, Fired adds one, so that no
	// command fires it again. A timer whose command is more than keep newer than the event
	// stays as it is, because it was scheduled after the fired one had been purged. Fired
	// returns how many timers it changed. Events may come in any order, and repeatedly.
	Fired(ctx context.Context, keep time.Duration, events ...DueTimeReached) (changed int, err error)

	// ReplacePositions replaces all positions in the database.
	ReplacePositions(ctx context.Context, positions []Position) error

	// Alone runs fn while no other instance uses the database. If other instances run, they
	// have verified the database already, and Alone returns nil without calling fn. If
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
	return fmt.Sprintf("timers older than what the broker still has (since %s): %s; the oldest is of %s; only a backup protects them",
		since, n, u.Oldest.UTC().Format(time.RFC3339))
}
