package broker

import (
	"context"
	"errors"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/timer"
)

// A Kind is what messages of a topic are.
type Kind int

// Kinds of messages.
const (
	Commands Kind = iota
	Events
	DeadLetter
)

// A Log is one that holds commands, as the broker knows it: what the service has read
// of it is still there, for as long as the broker keeps messages.
type Log struct {
	Name      string    // as in [timer.Position]
	Acked     int64     // all commands up to this number were acked by the role; 0 if none was
	Delivered int64     // the highest number of a command that was delivered to the role
	Pending   int64     // commands up to Delivered that were not acked; 0 if they are delivered again from Acked on
	Last      int64     // the highest number in the log; 0 if it never held a message
	Oldest    time.Time // when the oldest message in it was stored; zero if it holds none
}

// A Stored is a message that a log holds.
type Stored struct {
	Message *message.Message // as a subscriber delivers it, without [MetaDelivery]; there is nothing to ack
	Log     string           // as in [timer.Position]
	Number  int64            // in the log
	At      time.Time        // when it was stored
}

// History is what a broker keeps of messages that were acked. Methods return
// [errors.ErrUnsupported] if it keeps nothing, and wrap [ErrUnavailable] while there is
// no connection.
type History interface {
	// Positions returns how far a role has read the logs of commands, and how far this
	// process has read or written any log. It asks no server, takes no longer than a
	// lock, and is called for each transaction. It is empty before the first message,
	// and always for a broker that keeps nothing.
	Positions(role string) []timer.Position

	// Logs returns the logs of commands. A log that does not exist yet is missing.
	Logs(ctx context.Context, role string) ([]Log, error)

	// Replay calls visit with the messages of a kind, of all tenants, that were stored
	// before Replay was called, in batches of up to a few thousand, oldest first in each
	// log: those that are behind a position of their log, which is its Committed for
	// commands and its Observed for others, and all of a log without a position. Of the
	// commands it visits those that were delivered to the role: up to Delivered. It
	// acks nothing, changes no position at the broker, and returns the first error of
	// ctx, the broker or visit. The batch is valid until visit returns.
	Replay(ctx context.Context, role string, kind Kind, from []timer.Position, visit func(batch []Stored) error) error

	// Used reports whether a process other than this one takes the commands of a role
	// now. One that has died counts until the broker notices, some seconds.
	Used(ctx context.Context, role string) (bool, error)
}

// NoHistory is the [History] of a broker that keeps nothing. Drivers embed it.
type NoHistory struct{}

// Positions returns none.
func (NoHistory) Positions(string) []timer.Position { return nil }

// Logs returns [errors.ErrUnsupported].
func (NoHistory) Logs(context.Context, string) ([]Log, error) { return nil, errors.ErrUnsupported }

// Replay returns [errors.ErrUnsupported].
func (NoHistory) Replay(context.Context, string, Kind, []timer.Position, func([]Stored) error) error {
	return errors.ErrUnsupported
}

// Used returns [errors.ErrUnsupported].
func (NoHistory) Used(context.Context, string) (bool, error) { return false, errors.ErrUnsupported }
