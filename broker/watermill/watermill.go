// Package watermill makes a broker of any pair of Watermill's publisher and
// subscriber, for a host that has them already.
//
// This package gives each message a result, limits messages in flight, delays retries
// and stops in order. The pair decides whether messages are durable, how many come at
// once and what a role is; this package can't add to that. docs/brokers/README.md says
// which promises hold with three pairs.
//
//	Publish ──one message a call, some calls at once──► message.Publisher
//	handler ◄── inflight.Window ◄── message.Subscriber of the role
//	   └──nack──► held for the delay, unacked, then nacked at the pair
//
// The pair still belongs to the host program: neither is ever closed here.
package watermill

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/inflight"
	"github.com/event-service-agent/timer-service/internal/option"
	"github.com/event-service-agent/timer-service/timer"
)

var (
	// ErrNotRunning is the result of a message while Run does not run.
	ErrNotRunning = fmt.Errorf("%w: the broker is not running", broker.ErrUnavailable)
	// ErrDeadLetters is the error of a visit, since a pair can't list or remove messages.
	ErrDeadLetters = fmt.Errorf("dead letters of a Watermill pair are visited with the tools of its broker: %w", errors.ErrUnsupported)
	// ErrTail is the error of a tail without [Options.Tail].
	ErrTail = fmt.Errorf("this broker has no subscriber for a tail: %w", errors.ErrUnsupported)
)

// A Subscribers returns the subscriber of a role. All subscriptions of a role's
// subscribers share its messages, in this process and in others, if the pair supports
// that. The function is called for each Subscribe, and again after an error.
type Subscribers func(role string) (message.Subscriber, error)

// Options tune a [Broker]. The zero value is ready to use.
type Options struct {
	Routing broker.Routing // default [DefaultRouting]; the commands topic can't name the tenant
	Calls   int            // calls of the publisher at once; default 16

	// Batch is the most messages of one call; default 1. It may be larger only if a call
	// that fails has published none of its messages.
	Batch int

	// MaxDelay is the longest delay of a retry; default 20s. The message stays unacked at
	// the pair meanwhile, so MaxDelay must be shorter than the time after which the pair
	// redelivers an unacked message.
	MaxDelay time.Duration

	// SubscribeTimeout is how long Subscribe waits for the pair; default 1s. After that it
	// goes on in the background. A pair that keeps no messages then loses the messages of
	// that time.
	SubscribeTimeout time.Duration

	// Classify wraps the error of a call in [broker.ErrRefused] or [broker.ErrUnavailable],
	// if it is one of these. By default every error concerns the topic, and the message is
	// retried.
	Classify func(error) error

	// Ready returns nil if the pair's broker can be used. It has a second. With nil the
	// broker counts as usable.
	Ready func(ctx context.Context) error
	// Tail returns a subscriber that gets all messages that are published from then on.
	// With nil there is no tail.
	Tail func() (message.Subscriber, error)
}

// DefaultReceipts is the usual [broker.Routing.Receipts], which is not set by default.
const DefaultReceipts = "service.receipts"

// DefaultRouting returns [broker.PlainRouting].
func DefaultRouting() broker.Routing { return broker.PlainRouting() }

// A Broker uses a pair of a Watermill publisher and subscriber. Make it with [New] and
// run it once.
type Broker struct {
	pub         message.Publisher
	subscribers Subscribers
	opt         Options
	log         *slog.Logger
	term        *inflight.Term
	calls       chan struct{}     // slots for calls of the publisher
	failures    inflight.Failures // why subscriptions get no messages
}

// New returns a Broker. It starts nothing: call [Broker.Run].
func New(pub message.Publisher, subscribers Subscribers, opt Options, log *slog.Logger) *Broker {
	if pub == nil || subscribers == nil {
		panic("watermill: a broker needs a publisher and subscribers")
	}
	if opt.Routing == (broker.Routing{}) {
		opt.Routing = DefaultRouting()
	}
	opt.Calls = option.Positive(opt.Calls, 16)
	opt.Batch = option.Positive(opt.Batch, 1)
	opt.SubscribeTimeout = option.Positive(opt.SubscribeTimeout, time.Second)
	opt.MaxDelay = option.Positive(opt.MaxDelay, 20*time.Second)
	if opt.Classify == nil {
		opt.Classify = func(err error) error { return err }
	}
	if opt.Ready == nil {
		opt.Ready = func(context.Context) error { return nil }
	}
	return &Broker{
		pub: pub, subscribers: subscribers, opt: opt, log: log,
		term:  inflight.NewTerm(),
		calls: make(chan struct{}, opt.Calls),
	}
}

// Run accepts messages until ctx is done, then ends all subscriptions and returns nil. It
// returns an error if the options can't work.
func (b *Broker) Run(ctx context.Context) error {
	if b.opt.Routing.Wildcard != "" {
		return errors.New("routing: a Watermill message does not say what topic it came from, so the commands topic can't name the tenant: unset Wildcard")
	}
	if err := b.opt.Routing.Validate(); err != nil {
		return fmt.Errorf("routing: %w", err)
	}
	return b.term.Run(ctx)
}

// Ready returns nil while Run runs, every subscription is open and
// [Options.Ready] returns nil.
func (b *Broker) Ready(ctx context.Context) error {
	if _, away := b.Interruptions(); away != nil {
		return away
	}
	if err := b.failures.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := b.opt.Ready(ctx); err != nil {
		return fmt.Errorf("%w: %w", broker.ErrUnavailable, err)
	}
	return nil
}

// Routing names the topics.
func (b *Broker) Routing() broker.Routing { return b.opt.Routing }

// Publisher returns the publisher.
func (b *Broker) Publisher() broker.Publisher { return publisher{b} }

// Subscriber returns a subscriber for a role.
func (b *Broker) Subscriber(role string) message.Subscriber {
	return &subscriber{Subscriptions: inflight.NewSubscriptions(b.term), broker: b, role: role}
}

// Tail returns a subscriber for messages that are published from now on. Its Subscribe
// returns [ErrTail] without [Options.Tail].
func (b *Broker) Tail() message.Subscriber {
	return inflight.Tail{Subscriptions: inflight.NewSubscriptions(b.term), Listen: b.listen}
}

// Now returns [errors.ErrUnsupported]: a pair has no clock.
func (b *Broker) Now(context.Context) (time.Time, error) { return time.Time{}, errors.ErrUnsupported }

// CatchUp returns [errors.ErrUnsupported], since a pair does not report its backlog.
func (b *Broker) CatchUp(context.Context, string) error { return errors.ErrUnsupported }

// Interruptions returns 0, since a pair does not report that its connection is lost. The
// broker is away while Run does not run.
func (b *Broker) Interruptions() (int64, error) {
	if !b.term.Running() {
		return 0, ErrNotRunning
	}
	return 0, nil
}

// Provision returns nothing, since the host provisions for its pair.
func (b *Broker) Provision(context.Context, bool) ([]broker.Change, error) { return nil, nil }

// Claim returns [errors.ErrUnsupported], since a pair can store only messages.
func (b *Broker) Claim(context.Context, string, broker.Owner, bool) (broker.Owner, error) {
	return broker.Owner{}, fmt.Errorf("a Watermill pair can't keep the owner of the commands: %w", errors.ErrUnsupported)
}

// History returns nil, since a pair does not report which messages it keeps.
func (b *Broker) History() (broker.History, string) {
	return nil, "a pair of Watermill does not say which messages it keeps"
}

// VisitDeadLetters returns [ErrDeadLetters].
func (b *Broker) VisitDeadLetters(context.Context, timer.TenantID, string, broker.DeadLetterVisit) error {
	return ErrDeadLetters
}

// withoutMeta returns a copy of a message without metadata that are only for this
// process.
func withoutMeta(msg *message.Message) *message.Message {
	c := msg.Copy()
	maps.DeleteFunc(c.Metadata, func(name, _ string) bool { return broker.IsMeta(name) })
	return c
}

// received returns a copy of a message as a subscriber delivers it.
func received(msg *message.Message, topic string) *message.Message {
	c := withoutMeta(msg)
	c.Metadata[broker.MetaTopic] = topic
	return c
}

var _ broker.Broker = (*Broker)(nil)
