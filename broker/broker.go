// Package broker says what the service needs of a message broker, and how
// topics are named. One driver a broker kind implements it: broker/nats,
// broker/kafka, broker/rabbitmq, broker/gochannel. What a host has of
// Watermill's is one, too, with broker/watermill. The contract is written
// twice: here in words, and in broker/brokertest as tests that every driver
// passes.
package broker

import (
	"context"
	"errors"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/timer"
)

// ErrNameTenant says that the broker can't list its topics: dead letters are
// visited one tenant at a time.
var ErrNameTenant = errors.New("this broker can't list its topics: name a tenant")

// A Broker connects the service with one message broker. Drivers construct it
// without touching the network; all methods are safe for concurrent use.
type Broker interface {
	// Run connects and keeps connected until ctx is done, however often the
	// broker goes away; then it closes what it opened and returns nil. It
	// returns an error only if no retry can help, such as a configuration that
	// the broker refuses.
	Run(ctx context.Context) error

	// Ready returns nil while connected and provisioned, else what is wrong.
	// It never waits longer than a second.
	Ready(ctx context.Context) error

	// Publisher returns the one publisher. Before Run has connected every result
	// is an [ErrUnavailable].
	Publisher() Publisher

	// Subscriber returns a subscriber for a role (a consumer group), such as
	// "timer-service". Instances of one role share its messages, a role's
	// position outlives them, and a message that was not acked comes back.
	// Messages come in no order, one at a time each, thousands at once. A nacked
	// message comes back after [RetryDelay], for ever; while it waits it delays
	// no other message, and it does not hold back the broker's
	// position for ever. Subscribe returns at once, even while the broker is
	// down. Canceling the context of Subscribe ends the intake; messages in
	// flight can still be acked until Close.
	Subscriber(role string) message.Subscriber

	// CatchUp returns nil once the backlog of a role's commands has been read: all
	// that waited at the broker when it was called was delivered to the consumers
	// of the role, and what was delivered to this process is settled, that is acked
	// or nacked. It does not wait for what is published later, for messages that
	// wait for their retry, or for what was delivered to a process that has died.
	// The role is one that this process has subscribed to the commands, or is about
	// to. The error is that of ctx, wraps [ErrUnavailable] if the broker goes away
	// meanwhile, or is an [errors.ErrUnsupported] if the broker can't tell.
	CatchUp(ctx context.Context, role string) error

	// Interruptions returns how often commands have stopped to come since Run began,
	// because the broker went away: so an outage that is over is noticed, however
	// short it was. It also returns why the broker is away now, an error that wraps
	// [ErrUnavailable], or nil. It asks no server, never waits, and is called often.
	Interruptions() (n int64, away error)

	// Tail returns a subscriber that is delivered what is published to a
	// topic after Subscribe has returned, for people and clients that wait for
	// an answer. Nothing is redelivered, and acks have no effect.
	Tail() message.Subscriber

	// Routing names the topics.
	Routing() Routing

	// Now returns the broker's time, an error while it can't be had, and
	// [errors.ErrUnsupported] if the broker does not report it.
	Now(ctx context.Context) (time.Time, error)

	// Provision creates what the routing needs and does not exist at the server, or,
	// if dry, only returns what it would create. It connects by itself: Run need not
	// run. It returns what it created or would create, which may be nothing. The error
	// names the setting if something exists that does not fit.
	Provision(ctx context.Context, dry bool) ([]Change, error)

	// History returns what the broker keeps of messages that were acked, or nil and a
	// sentence for people that says why there is nothing.
	History() (kept History, lacks string)

	Owners
	DeadLetters
}

// A Change is one thing that a server needs before the service can work with it.
type Change struct {
	Object string // what it is, and its name: "stream svc"
	Detail string // its settings, for people
}

// DeadLetters are those that wait at a broker.
type DeadLetters interface {
	// VisitDeadLetters calls visit with each dead letter of a tenant that there is
	// when it begins, oldest first. If visit returns true the dead letter is
	// removed for good. The tenant "" means all; [ErrNameTenant] says that the
	// broker can't. Run must be running. The visit ends at the first error, of
	// ctx, the broker or visit, and returns it; what was not removed stays where
	// it is.
	VisitDeadLetters(ctx context.Context, tenant timer.TenantID, visit func(deadLetter *message.Message) (remove bool, err error)) error
}

// An Inspection is what a server is found to be. What is not known is zero.
type Inspection struct {
	Version string        // of the server
	Now     time.Time     // by its clock
	Owner   Owner         // of the commands
	Keeps   string        // how it keeps messages, for people
	MaxAge  time.Duration // how long it keeps them; 0 is for ever, or unknown
	Limit   int64         // how many bytes it takes at most; 0 is without a limit, or unknown
	Used    int64         // how many of these it has
	Oldest  time.Time     // since when it has the commands that it took, at least
	Rereads bool          // whether it keeps messages that were read
}
