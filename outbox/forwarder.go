package outbox

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/timer"
)

// ForwarderOptions tune a [Forwarder]. The zero value is ready to use.
type ForwarderOptions struct {
	Interval    time.Duration       // longest sleep between looks at the outbox; default 5s
	Batch       int                 // rows published at once; default 1000
	MaxAttempts int                 // publishes of a refused row before it is parked; default 5
	Forwarded   func(rows int)      // called when the broker has acked rows; must not block
	Parked      func(reason string) // called when a row was parked; must not block
}

// A MultiPublisher is a [message.Publisher] that publishes to many topics in one
// go, which some brokers do much faster. PublishTo publishes each message to the
// topic at the same index, otherwise as Publish does.
type MultiPublisher interface {
	PublishTo(topics []string, messages []*message.Message) error
}

// A Forwarder publishes what the outbox holds and deletes it after the broker's
// ack. No transaction waits for the network: while the broker is down, the
// application writes on. There must be one active Forwarder per outbox, else
// the order of a key is lost.
type Forwarder struct {
	table Table
	pub   message.Publisher
	topic func(*message.Message) string
	clock timer.Clock
	log   *slog.Logger
	opt   ForwarderOptions
	wake  chan struct{} // holds one

	detour  detour // of whoever runs
	aside   aside
	backlog backlog
}

// NewForwarder returns a Forwarder that publishes each event to the topic that
// the function names for it, in one go if pub is a [MultiPublisher]. It starts
// nothing: call [Forwarder.Run].
func NewForwarder(
	table Table, pub message.Publisher, topic func(event *message.Message) string,
	clock timer.Clock, log *slog.Logger, opt ForwarderOptions,
) *Forwarder {
	if opt.Interval <= 0 {
		opt.Interval = 5 * time.Second
	}
	if opt.Batch <= 0 {
		opt.Batch = 1000
	}
	if opt.MaxAttempts <= 0 {
		opt.MaxAttempts = 5
	}
	if opt.Forwarded == nil {
		opt.Forwarded = func(int) {}
	}
	if opt.Parked == nil {
		opt.Parked = func(string) {}
	}
	return &Forwarder{
		table: table, pub: pub, topic: topic, clock: clock, log: log, opt: opt,
		wake: make(chan struct{}, 1),
	}
}

// Wake tells that rows were appended, after their commit. It never blocks;
// losing it costs at most one interval.
func (f *Forwarder) Wake() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Appended tells that so many rows were appended, after their commit, and wakes.
func (f *Forwarder) Appended(rows int) {
	f.backlog.add(rows)
	f.Wake()
}

// Waiting returns how many rows wait that it was told of and has not come to yet;
// very many while it does not know how many were there before. Rows that it has
// left behind do not count.
func (f *Forwarder) Waiting() int { return f.backlog.waiting() }

const (
	minBackoff = 50 * time.Millisecond
	maxBackoff = 5 * time.Second
	drainPause = 5 * time.Millisecond // between looks at an outbox that should become empty
	patience   = 30 * time.Second     // longest look or change
)

// Run forwards until ctx is done, then finishes the batch in hand and returns
// nil. After an error it begins again from the oldest row, with a growing pause.
// It returns an error only if that wraps [timer.ErrFatal].
func (f *Forwarder) Run(ctx context.Context) error {
	for backoff := minBackoff; ; {
		s := session{Forwarder: f, published: make(chan []int64, 1), tried: make(chan attempt), hurry: make(chan struct{}, 1)}
		err := s.run(ctx)
		switch {
		case errors.Is(err, timer.ErrFatal):
			return err
		case ctx.Err() != nil:
			return nil
		}
		if s.forwarded > 0 {
			backoff = minBackoff
		}
		f.log.WarnContext(ctx, "forwarding failed, will retry", "error", err, "retry_in", backoff)
		if !pause.For(ctx, backoff) {
			return nil
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// Drain waits until the outbox is empty. It returns the error of ctx if that
// ends first. Run must be running, and nothing should append any more.
func (f *Forwarder) Drain(ctx context.Context) error {
	for {
		rows, err := f.table.Head(ctx, 0, 1)
		if err == nil && len(rows) == 0 {
			return nil
		}
		f.Wake()
		if !pause.For(ctx, drainPause) {
			return ctx.Err()
		}
	}
}

// detached is a context for work that a stop must not tear apart.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), patience)
}
