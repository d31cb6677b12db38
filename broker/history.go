package broker

import (
	"context"
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
	Oldest    time.Time // since when it has all commands; zero if it holds none
	Bytes     int64     // how much of MaxBytes is used
	MaxBytes  int64     // how much it takes at most, or the disk that it shares; 0 if it has no limit that is known
}

// A Stored is a message that a log holds.
type Stored struct {
	Message *message.Message // as a subscriber delivers it, without [MetaDelivery]; there is nothing to ack
	Log     string           // as in [timer.Position]
	Number  int64            // in the log
	At      time.Time        // when it was stored
}

// History is what a broker keeps of messages that were acked. Methods wrap
// [ErrUnavailable] while there is no connection.
type History interface {
	// Positions returns how far a role has read the logs of commands, and how far this
	// process has read or written any log. It asks no server, takes no longer than a
	// lock, and is called for each transaction. It is empty before the first message.
	Positions(role string) []timer.Position

	// Logs returns the logs of commands. A log that does not exist yet is missing.
	Logs(ctx context.Context, role string) ([]Log, error)

	// Read calls visit with the messages of a kind, of all tenants, that were stored
	// before Read was called, in batches of up to a few thousand, oldest first in each
	// log: those behind a number of their log, which is 0 if after does not name it, and
	// up to another one, which is the last if upTo is nil, and 0 if it does not name the
	// log. It acks nothing, changes no position at the broker, and returns the first
	// error of ctx, the broker or visit. The batch is valid until visit returns.
	Read(ctx context.Context, kind Kind, after, upTo map[string]int64, visit func(batch []Stored) error) error

	// Used reports whether a process other than this one takes the commands of a role
	// now. One that has died counts until the broker notices, some seconds.
	Used(ctx context.Context, role string) (bool, error)
}

// Replay reads messages of a kind behind positions: behind Committed for commands, and
// behind Observed for others. Of the commands it visits the ones that were delivered to the
// role. See [History.Read] for the rest.
func Replay(ctx context.Context, h History, role string, kind Kind, from []timer.Position, visit func(batch []Stored) error) error {
	after := make(map[string]int64)
	for _, p := range from {
		after[p.Log] = p.Observed
	}
	if kind != Commands {
		return h.Read(ctx, kind, after, nil, visit)
	}
	for _, p := range from {
		after[p.Log] = p.Committed
	}
	logs, err := h.Logs(ctx, role)
	if err != nil {
		return err
	}
	upTo := make(map[string]int64)
	for _, l := range logs {
		upTo[l.Name] = l.Delivered
	}
	return h.Read(ctx, kind, after, upTo, visit)
}
