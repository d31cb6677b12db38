// Package gochannel is the driver for tests and for services that live in one
// process. It keeps everything in memory:
//
//   - A role gets messages that are published after it has subscribed. Nothing is kept
//     for a role that never subscribed. Messages without an ack are kept while one of the
//     role's subscribers is open; the Close of the last one discards them.
//   - Publish returns when the message is queued for every role. While
//     [Options.Pending] messages wait for acks it waits too, for at most 20 seconds.
//     Then its results are [ErrFull].
//   - The newest dead letters are kept apart for [Broker.VisitDeadLetters], at most
//     [Options.DeadLetters].
//
// It runs in a bubble of testing/synctest.
//
//	Publish ──► entry ──► group (role, topic) ──► inflight.Window (subscription) ──► handler
//	              ├─────► group of another role
//	              └─────► tails, dead letters
//
// Watermill's own GoChannel has no roles, no limit and no delay of a retry, and
// lets a subscription have one message in flight. This driver once used it, only for the
// arrow from Publish to the groups: 15,000 messages a second were published and consumed
// with it, and 110,000 are without it (BenchmarkBroker, 2 cores, 2026-11).
// broker/watermill supports it as a broker of its own.
package gochannel

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"golang.org/x/sync/semaphore"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/inflight"
	"github.com/event-service-agent/timer-service/internal/option"
)

var (
	// ErrNotRunning is the result of a message while Run does not run.
	ErrNotRunning = fmt.Errorf("%w: the broker is not running", broker.ErrUnavailable)
	// ErrFull is the result of a message while consumers are too far behind.
	ErrFull = fmt.Errorf("%w: too many messages wait for acks", broker.ErrUnavailable)
	// ErrClosed is the error of Subscribe after the Close of the subscriber, or after the
	// end of Run.
	ErrClosed = inflight.ErrClosed
)

// publishTimeout is how long Publish waits for consumers that are behind.
const publishTimeout = 20 * time.Second

// Options tune a [Broker]. The zero value is ready to use.
type Options struct {
	Routing     broker.Routing // default [DefaultRouting]
	DeadLetters int            // most dead letters; the oldest is dropped then; default 10,000
	Pending     int            // messages that may wait for acks before Publish waits; default 65536
}

// DefaultReceipts is the usual [broker.Routing.Receipts], which is not set by default.
const DefaultReceipts = "service.receipts"

// DefaultRouting returns [broker.PlainRouting].
func DefaultRouting() broker.Routing { return broker.PlainRouting() }

// A Broker carries messages within this process. Make it with [New] and run it
// once.
type Broker struct {
	opt     Options
	term    *inflight.Term      // ends with Run
	pending *semaphore.Weighted // limits messages that are queued, held or in flight

	mu          sync.Mutex
	published   uint64 // messages so far
	groups      map[groupID]*group
	tails       map[listener]bool
	deadLetters []*message.Message      // newest dead letters, oldest first; visits get copies
	owners      map[string]broker.Owner // by role
}

// New returns a Broker. It starts nothing: call [Broker.Run]. It logs nothing, and has
// the logger since all drivers are constructed alike.
func New(opt Options, _ *slog.Logger) *Broker {
	opt.Routing = cmp.Or(opt.Routing, DefaultRouting())
	opt.Pending = option.Positive(opt.Pending, 1<<16)
	opt.DeadLetters = option.Positive(opt.DeadLetters, 10_000)
	return &Broker{
		opt:     opt,
		term:    inflight.NewTerm(),
		pending: semaphore.NewWeighted(int64(opt.Pending)),
		groups:  make(map[groupID]*group),
		tails:   make(map[listener]bool),
		owners:  make(map[string]broker.Owner),
	}
}

// Run accepts messages until ctx is done, then ends all subscriptions, discards messages
// without an ack, and returns nil. It returns an error if the options can't work.
func (b *Broker) Run(ctx context.Context) error {
	if err := b.opt.Routing.Validate(); err != nil {
		return fmt.Errorf("routing: %w", err)
	}
	return b.term.Run(ctx)
}

// Ready returns nil while Run runs.
func (b *Broker) Ready(context.Context) error {
	if !b.term.Running() {
		return ErrNotRunning
	}
	return nil
}

// Routing names the topics.
func (b *Broker) Routing() broker.Routing { return b.opt.Routing }

// Publisher returns the publisher.
func (b *Broker) Publisher() broker.Publisher { return publisher{b} }

// Subscriber returns a subscriber for a role.
func (b *Broker) Subscriber(role string) message.Subscriber {
	return &subscriber{Subscriptions: inflight.NewSubscriptions(b.term), broker: b, role: role, groups: make(map[groupID]*group)}
}

// Tail returns a subscriber for messages that are published from now on.
func (b *Broker) Tail() message.Subscriber {
	return inflight.Tail{Subscriptions: inflight.NewSubscriptions(b.term), Listen: b.listen}
}

// Now returns [errors.ErrUnsupported]: this process has one clock.
func (b *Broker) Now(context.Context) (time.Time, error) { return time.Time{}, errors.ErrUnsupported }

// History returns nil: a message that was acked is gone.
func (b *Broker) History() (broker.History, string) {
	return nil, "the broker in this process keeps no message that was acked"
}

// Provision returns nothing: there is no server.
func (b *Broker) Provision(context.Context, bool) ([]broker.Change, error) { return nil, nil }

// publisher publishes within the process. See [broker.Publisher] for its contract.
type publisher struct{ *Broker }

// Publish returns when the messages are queued for every role.
func (p publisher) Publish(ctx context.Context, messages ...broker.Message) []error {
	ctx, cancel := context.WithTimeoutCause(ctx, publishTimeout, ErrFull) // for all messages together
	defer cancel()
	waiting, stop := p.term.Until(ctx)
	defer stop()
	results := make([]error, len(messages))
	for i, m := range messages {
		switch {
		case m.Topic == "":
			results[i] = fmt.Errorf("%w: the topic is empty", broker.ErrRefused)
		case p.Ready(ctx) != nil:
			results[i] = ErrNotRunning
		case p.pending.Acquire(waiting, 1) == nil:
			p.queue(m)
		default:
			results[i] = cmp.Or(context.Cause(ctx), ErrNotRunning)
		}
	}
	return results
}

// queue queues a message for each role, and sends it to tails.
func (b *Broker) queue(m broker.Message) {
	sent := m.Copy()
	sent.Payload = bytes.Clone(m.Payload)
	maps.DeleteFunc(sent.Metadata, func(name, _ string) bool { return broker.IsMeta(name) })
	sent.Metadata[broker.MetaTopic] = m.Topic
	e := &entry{broker: b, msg: sent}

	b.mu.Lock()
	defer b.mu.Unlock()
	b.published++
	sent.Metadata[broker.MetaPosition] = strconv.FormatUint(b.published, 10)
	e.unsettled.Store(1) // until all groups have the message
	for id, g := range b.groups {
		if id.topic == m.Topic {
			e.unsettled.Add(1)
			g.push(&delivery{entry: e, group: g})
		}
	}
	for l := range b.tails {
		if l.topic == m.Topic {
			l.offer(sent)
		}
	}
	if _, ok := b.opt.Routing.DeadLetterOf(m.Topic, sent); ok {
		b.deadLetters = append(b.deadLetters, sent)
		b.deadLetters = b.deadLetters[max(0, len(b.deadLetters)-b.opt.DeadLetters):]
	}
	e.settle()
}

var _ broker.Broker = (*Broker)(nil)
