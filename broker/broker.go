// Package broker says what the service needs of a message broker, and how
// topics are named. One driver a broker kind implements it: broker/nats,
// broker/gochannel. The contract is written twice: here in words, and in
// broker/brokertest as tests that every driver passes.
package broker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// ErrRefused is what a publisher's error wraps if the broker is well but will
// never take this message: it is too large, or its topic is not allowed. It is
// a [timer.ErrInvalid].
var ErrRefused = fmt.Errorf("%w: refused by the broker", timer.ErrInvalid)

// ErrNameTenant says that the broker can't list its topics: dead letters are
// visited one tenant at a time.
var ErrNameTenant = errors.New("this broker can't list its topics: name a tenant")

// Metadata that a subscriber adds to every message it delivers.
const (
	MetaTopic    = envelope.MetaTopic
	MetaPosition = envelope.MetaPosition
	MetaDelivery = envelope.MetaDelivery
)

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

	// Publisher returns the one publisher. Its Publish returns nil when the
	// broker has made every message durable, in order within a topic; the
	// message's UUID is the broker's dedupe id, its metadata become headers. On
	// an error any of the messages may have been published. An error wraps
	// [ErrRefused] if no retry can help. Publish returns within 30 seconds,
	// and before Run has connected it returns an error. Close does nothing.
	Publisher() message.Publisher

	// Subscriber returns a subscriber for a role, such as "timer-service".
	// Instances of one role share its messages, a role's position outlives
	// them, and a message that nobody acked comes back. Thousands of messages
	// are delivered at once; those of one ordering key ([Key]) one after the
	// other, each after the one before it was acked or nacked, or has left its
	// place ([envelope.LeavePlace], which a driver may ignore). A nacked message
	// gives way: it comes back after [RedeliveryDelay], for ever, behind those
	// of its key that came meanwhile. Subscribe returns at once, even
	// while the broker is down. Canceling the context of Subscribe ends the
	// intake; messages in flight can still be acked until Close.
	Subscriber(role string) message.Subscriber

	// Tail returns a subscriber that is delivered what is published to a
	// topic after Subscribe has returned, for people and clients that wait for
	// an answer. Nothing comes back, and acks mean nothing to the broker.
	Tail() message.Subscriber

	// Routing names the topics.
	Routing() Routing

	DeadLetters
}

// An Offerer is what a subscriber may be beyond the contract: it offers each
// message to a function before it makes a message of it.
type Offerer interface {
	// SubscribeOffers subscribes as Subscribe does. A message for which take
	// returns true is not delivered unless it is passed on. It counts as in
	// flight until it is acked, stands in no line with others of its key, and is
	// handed back if it is passed on after the end of the intake. Take is called
	// from one goroutine and must not block.
	SubscribeOffers(ctx context.Context, topic string, take func(envelope.Offer) bool) (<-chan *message.Message, error)
}

// A Provisioner makes at its server what a routing needs. Drivers whose broker
// has topics, streams or queues to make are provisioners.
type Provisioner interface {
	// Provision makes what is not there yet, or, if dry, only tells what it would
	// make. It connects by itself: Run need not run. It returns what it made or
	// would make, nothing if all is there, and an error that names the setting if
	// something is there that does not fit.
	Provision(ctx context.Context, dry bool) ([]Change, error)
}

// A Change is one thing that a server needs before the service can work with it.
type Change struct {
	Object string // what it is, and its name: "stream svc"
	Detail string // its settings, for people
}

// DeadLetters are those that wait at a broker.
type DeadLetters interface {
	// VisitDeadLetters calls visit with each dead letter of a tenant that there is
	// when it begins, oldest first. If visit returns true the letter is removed for
	// good. The tenant "" means all; [ErrNameTenant] says that the broker can't.
	// Run must be running. The visit ends at the first error, of ctx, the broker
	// or visit, and returns it; what was not removed stays where it is.
	VisitDeadLetters(ctx context.Context, tenant timer.TenantID, visit func(letter *message.Message) (remove bool, err error)) error
}

// redeliveryDelays are the pauses after the first, second and every later nack.
var redeliveryDelays = [...]time.Duration{time.Second, 5 * time.Second, 25 * time.Second}

// RedeliveryDelay returns how long to wait before a nacked message is delivered
// again: 1 s, 5 s, then 25 s, by how often it has been delivered (from 1), each
// between 0.8 and 1.2 times, so that messages nacked together do not return
// together.
func RedeliveryDelay(deliveries int) time.Duration {
	n := min(max(deliveries, 1), len(redeliveryDelays))
	return time.Duration(float64(redeliveryDelays[n-1]) * (0.8 + 0.4*rand.Float64()))
}
