package timer

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// A Position is how far a log of a broker, such as a stream of NATS or a partition of
// Kafka, is known to a database. Numbers are those of the broker and never fall.
type Position struct {
	Log       string // which log: its name, "@", and what tells it from one of that name that is made later; at most 512 bytes
	Committed int64  // all commands up to this number are in the database, or are dead letters; 0 if it is not known
	Observed  int64  // the highest number that was received or published: the events up to it are of timers that are Reached; 0 if there is none
}

// Noted is what a database knows of the broker's logs.
type Noted struct {
	Positions []Position
	Empty     bool // it holds no timer, event or position, as one that was just made
}

// A Recoverer is the part of a store by which a database that was lost, or is older
// than the broker knows, is made whole again.
type Recoverer interface {
	// CommitPositions makes each later transaction that applies commands of [Store], or
	// deletes or defers events of the outbox, note the positions that a function returns as
	// the transaction begins. What is noted never falls: the higher of two numbers stays. A
	// transaction that has nothing new to note writes nothing for it. The function is
	// called often and must not block. It is called before anything is written.
	CommitPositions(positions func() []Position)

	// Noted returns what is noted.
	Noted(ctx context.Context) (Noted, error)

	// Fired brings in events that were published: the timer of each becomes Reached, or Expired,
	// with the due time and the time of the event, whatever version it has, and its
	// event leaves the outbox, deferred or not. A timer whose command is more than keep
	// newer than the event stays as it is: it was scheduled after the fired one was
	// purged. An event without a timer leaves one that is so, so that no command
	// fires it again. It returns how many timers were neither Reached nor Expired before. Events may
	// come in any order, and again.
	Fired(ctx context.Context, keep time.Duration, events ...DueTimeReached) (changed int, err error)

	// ReplacePositions notes positions in place of all that there are.
	ReplacePositions(ctx context.Context, positions []Position) error

	// Alone runs fn while this instance has the database alone. Where other instances run
	// on it, they have verified it: then Alone returns nil without a call of fn. It does
	// not wait: the error says so if another instance is within Alone. The context of fn
	// ends if it is not certain any more that the instance is alone.
	Alone(ctx context.Context, fn func(context.Context) error) error
}

// Unprotected are the timers that wait and whose commands the broker does not keep any
// more, or never did: if the database were lost, only a backup would have them.
type Unprotected struct {
	Timers int64     // how many
	More   bool      // there may be more: not all that wait were looked at
	Oldest time.Time // when the oldest of their commands was sent; zero if that is not known
	Before time.Time // they are those whose command is older than this; zero if the broker keeps nothing
	At     time.Time // when they were counted; zero if they were not yet
}

// String says it to people.
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
