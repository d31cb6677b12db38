package broker

import (
	"context"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/timer"
)

// A Kind says what a message is.
type Kind int

// Kinds of messages.
const (
	Commands Kind = iota
	Events
	DeadLetter
)

// String returns what people call messages of the kind.
func (k Kind) String() string { return [...]string{"commands", "events", "dead letters"}[k] }

// A Log is a log of commands, as the broker knows it. It still holds commands that the
// service has read, for as long as the broker keeps messages.
type Log struct {
	Name      string // name as in [timer.Position]
	Acked     int64  // number up to which the role has acked all commands; 0 if there is none
	Delivered int64  // highest number of a command that was delivered to the role
	// Pending is how many commands up to Delivered were not acked. It is 0 if the broker
	// redelivers everything behind Acked.
	Pending  int64
	Last     int64     // highest number in the log; 0 if it never held a message
	Oldest   time.Time // time since which it has all commands; zero if it holds none
	Bytes    int64     // bytes that are used of MaxBytes
	MaxBytes int64     // most bytes of the log, or of its disk; 0 if unlimited or unknown
}

// A Stored is a message that a log holds.
type Stored struct {
	Message *message.Message // as subscribers deliver it, without [MetaDelivery]; acks have no effect
	Log     string           // name as in [timer.Position]
	Number  int64            // number in the log
	At      time.Time        // when the message was stored
}

// History gives access to messages that the broker keeps after their ack. Its methods
// wrap [ErrUnavailable] while there is no connection.
type History interface {
	// Positions returns how far a role has acked the logs of commands, and how far this
	// process has read or written any log. It asks no server, waits at most for a lock, and
	// is called for each transaction. It is empty before the first message.
	Positions(role string) []timer.Position

	// Logs returns the logs of commands. It leaves out logs that do not exist yet.
	Logs(ctx context.Context, role string) ([]Log, error)

	// Read calls visit with the messages of a kind, of all tenants, that were stored before
	// Read was called. They come in batches of up to a few thousand, oldest first in each
	// log. In each log Read begins behind the number in after, which is 0 if after does not
	// name the log. It ends with the number in upTo, which is 0 if upTo does not name the
	// log; if upTo is nil, it ends with the last message. Read acks nothing, changes no
	// position at the broker, and returns the first error of ctx, the broker or visit. A
	// batch is valid until visit returns.
	Read(ctx context.Context, kind Kind, after, upTo map[string]int64, visit func(batch []Stored) error) error

	// Used reports whether a process takes the commands of a role now. It is for a process
	// that does not take them yet. A process that has died counts until the broker notices,
	// for some seconds.
	Used(ctx context.Context, role string) (bool, error)
}

// Replay reads messages of a kind behind positions. Commands are read behind Committed,
// up to the last one that was delivered to the role; other kinds are read behind
// Observed. See [History.Read] for the rest.
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
