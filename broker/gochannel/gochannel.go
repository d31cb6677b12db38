// Package gochannel is the driver for tests and for services that live in one
// process. It keeps everything in memory, in Watermill's GoChannel and in
// queues of its own:
//
//   - A role gets what is published after it subscribed. Nothing is kept for a
//     role that never did. What it has not acked is kept while one of its
//     subscribers is open; the last Close forgets it.
//   - Messages of one key ([broker.Key]) are delivered one after the other, in
//     the order they were published, each after the one before it was acked or
//     nacked. A nacked message gives way: it returns after
//     [broker.RedeliveryDelay], behind those of its key that came meanwhile.
//   - Publish returns when the message is queued for every role. While as many
//     as [Options.Pending] wait for acks it waits too, for at most 20 seconds;
//     then it returns an error.
//   - The newest dead letters are kept apart for [Broker.VisitDeadLetters], at most
//     [Options.Letters]; how many older ones made room tells [Broker.Forgotten].
//
// It runs in a bubble of testing/synctest.
package gochannel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/event-service-agent/timer-service/broker"
)

var (
	// ErrNotRunning says that Run was not called yet, or is over.
	ErrNotRunning = errors.New("the broker is not running")
	// ErrFull says that consumers are too far behind.
	ErrFull = errors.New("too many messages wait for acks")
	// ErrClosed says that the subscriber was closed, or the broker is over.
	ErrClosed = errors.New("closed")
)

// publishTimeout is how long Publish waits for consumers that are behind.
const publishTimeout = 20 * time.Second

// Options tune a [Broker]. The zero value is ready to use.
type Options struct {
	Routing broker.Routing // default [DefaultRouting]
	Letters int            // dead letters that are kept, whoever reads them; the oldest makes room; default 10,000
	Pending int            // messages that may wait for acks, of all roles together, before Publish waits; default 65536
}

// DefaultRouting returns the topics in a process.
func DefaultRouting() broker.Routing {
	return broker.Routing{
		Commands:    "timer.commands",
		Events:      "service.events",
		DeadLetters: "service.events.dlq",
	}
}

// A Broker carries messages within this process. Make it with [New] and run it
// once.
type Broker struct {
	opt Options
	bus *gochannel.GoChannel // from publishers to groups and tails; their acks mean "queued"

	sequence atomic.Uint64
	ended    chan struct{} // closed when Run is over

	letters letters

	joining sync.Mutex // never locked by who takes from the bus: subscribing waits for publishing
	groups  map[groupKey]*group

	mu      sync.Mutex
	begun   bool
	running bool
	over    bool
	parts   sync.WaitGroup // everything that runs
	pending int            // messages queued or in flight
	room    chan struct{}  // closed when fewer than Options.Pending are
}

// New returns a Broker. It starts nothing: call [Broker.Run].
func New(opt Options, log *slog.Logger) *Broker {
	if opt.Routing == (broker.Routing{}) {
		opt.Routing = DefaultRouting()
	}
	if opt.Pending <= 0 {
		opt.Pending = 1 << 16
	}
	if opt.Letters <= 0 {
		opt.Letters = 10_000
	}
	logger := watermill.NewSlogLoggerWithLevelMapping(log, map[slog.Level]slog.Level{
		slog.LevelInfo: slog.LevelDebug, // a line for each message that nobody subscribed to
	})
	return &Broker{
		opt:     opt,
		letters: letters{most: opt.Letters},
		// A publish that waits for the groups to queue is one in order.
		bus:    gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, logger),
		ended:  make(chan struct{}),
		groups: make(map[groupKey]*group),
		room:   make(chan struct{}),
	}
}

// Run lets messages through until ctx is done, then ends all subscriptions,
// forgets what was not acked, and returns nil. It returns an error if the
// options can't work.
func (b *Broker) Run(ctx context.Context) error {
	if err := b.begin(); err != nil {
		return err
	}
	<-ctx.Done()
	b.mu.Lock()
	b.running, b.over = false, true
	b.mu.Unlock()
	close(b.ended)
	b.parts.Wait()
	return b.bus.Close()
}

func (b *Broker) begin() error {
	if err := b.opt.Routing.Validate(); err != nil {
		return fmt.Errorf("routing: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.begun {
		return errors.New("the broker has been run already")
	}
	b.begun, b.running = true, true
	return nil
}

// Ready returns nil while Run runs.
func (b *Broker) Ready(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.running {
		return ErrNotRunning
	}
	return nil
}

// Routing names the topics.
func (b *Broker) Routing() broker.Routing { return b.opt.Routing }

// Publisher returns the publisher.
func (b *Broker) Publisher() message.Publisher { return publisher{b} }

// Subscriber returns a subscriber for a role.
func (b *Broker) Subscriber(role string) message.Subscriber {
	return &subscriber{broker: b, role: role, closing: make(chan struct{})}
}

// Tail returns a subscriber for what is published from now on.
func (b *Broker) Tail() message.Subscriber {
	return &tail{broker: b, closing: make(chan struct{})}
}

// publisher publishes within the process. See [broker.Broker] for its contract.
type publisher struct{ *Broker }

// Close does nothing: the broker ends with [Broker.Run].
func (p publisher) Close() error { return nil }

// Publish returns when the messages are queued for every role.
func (p publisher) Publish(topic string, messages ...*message.Message) error {
	if topic == "" {
		return fmt.Errorf("%w: the topic is empty", broker.ErrRefused)
	}
	for i, msg := range messages {
		if err := p.awaitRoom(); err != nil {
			return fmt.Errorf("publish to %s: %d of %d messages: %w", topic, len(messages)-i, len(messages), err)
		}
		sent := message.NewMessage(msg.UUID, bytes.Clone(msg.Payload))
		for name, value := range msg.Metadata {
			sent.Metadata[name] = value
		}
		delete(sent.Metadata, broker.MetaDelivery)
		sent.Metadata[broker.MetaTopic] = topic
		sent.Metadata[broker.MetaPosition] = strconv.FormatUint(p.sequence.Add(1), 10)
		if err := p.bus.Publish(topic, sent); err != nil {
			return fmt.Errorf("publish to %s: %w", topic, err)
		}
		if t, ok := p.opt.Routing.DeadLetterOf(topic, sent); ok {
			p.letters.add(t, sent)
		}
	}
	return nil
}

// start runs a part of the broker. It returns false if Run is over.
func (b *Broker) start(part func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over {
		b.parts.Go(part)
	}
	return !b.over
}

// awaitRoom waits until one more message may be queued.
func (b *Broker) awaitRoom() error {
	t := time.NewTimer(publishTimeout)
	defer t.Stop()
	for {
		b.mu.Lock()
		running, full, room := b.running, b.pending >= b.opt.Pending, b.room
		b.mu.Unlock()
		switch {
		case !running:
			return ErrNotRunning
		case !full:
			return nil
		}
		select {
		case <-room:
		case <-b.ended:
		case <-t.C:
			return ErrFull
		}
	}
}

// count notes that n more messages wait for acks, or fewer.
func (b *Broker) count(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	full := b.pending >= b.opt.Pending
	b.pending += n
	if full && b.pending < b.opt.Pending {
		close(b.room)
		b.room = make(chan struct{})
	}
}

var _ broker.Broker = (*Broker)(nil)
