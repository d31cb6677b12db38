package broker

import (
	"context"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/timer"
)

// A Kind is a kind of messages.
type Kind int

// Kinds of messages.
const (
	Commands Kind = iota
	Events
	DeadLetter
)

// String returns the name of the kind for people.
func (k Kind) String() string { return [...]string{"commands", "events", "dead letters"}[k] }

// A Log is a log of the broker, with the numbers of the messages of a kind in it. It still holds
// messages that the service has settled, for as long as the broker keeps them.
type Log struct {
	Name string // name as in [timer.Number]
	Kind Kind
	// Floor is the number that may be written for the log: every message of the kind up to it
	// has been settled. For commands the role has settled them; if nothing is unsettled it is
	// Last. For other kinds, which the service publishes, it is Last.
	Floor     int64
	Delivered int64     // of commands: the highest number that was delivered to the role, at least Floor
	First     int64     // the lowest number that the log can hold: all below were removed
	Last      int64     // the highest number in the log; 0 if it never held a message
	Oldest    time.Time // of commands: when the oldest one that it holds was stored; zero if it holds none
	Bytes     int64     // used part of MaxBytes
	MaxBytes  int64     // of the limits that can stop publishes, the one that is reached first, mostly in bytes; 0 if unlimited or unknown
	Limit     string    // name of that limit, for people
}

// A Stored is a message that a log holds.
type Stored struct {
	Message *message.Message // as subscribers deliver it, without [MetaDelivery]; acks have no effect
	Log     string           // name as in [timer.Number]
	Number  int64            // number in the log
	At      time.Time        // when the message was stored
}

// History gives access to messages that the broker keeps after their ack. Its methods
// wrap [ErrUnavailable] while there is no connection.
type History interface {
	// Logs returns the logs of all kinds, as they were at a moment between the call and its
	// return. It leaves out logs that do not exist yet.
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

	// Place returns the log and the number of a message of a topic at a position, as in its
	// metadata. It returns false if they are not known. It asks no server.
	Place(topic, position string) (log string, number int64, ok bool)

	// Keep says that messages above the numbers are needed: the broker itself removes none of
	// them to make room. Before the first call it removes nothing.
	Keep(numbers []timer.Number)
}

// AwaitFloor waits until the role has settled all commands that the logs hold when it is
// called. A driver whose broker has a [History] implements [Broker.CatchUp] by it.
func AwaitFloor(ctx context.Context, h History, role string) error {
	var last map[string]int64
	return pause.Until(ctx, func() (bool, error) {
		logs, err := h.Logs(ctx, role)
		if err != nil {
			return false, err
		}
		logs = slices.DeleteFunc(logs, func(l Log) bool { return l.Kind != Commands })
		if last == nil {
			last = make(map[string]int64)
			for _, l := range logs {
				last[l.Name] = l.Last
			}
		}
		return !slices.ContainsFunc(logs, func(l Log) bool { return l.Floor < min(last[l.Name], l.Last) }), nil
	})
}
