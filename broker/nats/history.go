package nats

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/timer"
)

// A progress is how far this process has received and published in the stream, and how far
// consumers have acked it.
type progress struct {
	mu      sync.Mutex
	created time.Time         // when the stream was created; zero before it was looked up
	seen    uint64            // highest sequence that was received or published
	done    map[string]uint64 // sequence up to which a consumer has acked all that it reads
}

// identify notes when the stream was created. It reports whether that is the stream of
// before.
func (p *progress) identify(created time.Time) (same bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.created.IsZero() {
		p.created = created
	}
	return p.created.Equal(created)
}

// note notes that a message was received or published.
func (p *progress) note(sequence uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = max(p.seen, sequence)
}

// settle notes the sequence up to which a consumer has acked all that it reads.
func (p *progress) settle(durable string, sequence uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done[durable] = max(p.done[durable], sequence)
}

// logOf returns the name of our stream as a log. It differs if the stream is made again.
func (b *Broker) logOf(created time.Time) string {
	return b.opt.Stream + "@" + created.UTC().Format(time.RFC3339Nano)
}

// Positions returns up to where the role has acked the commands of the stream, as the
// server said a moment ago, and the highest sequence that this process has received or
// published.
func (b *Broker) Positions(role string) []timer.Position {
	p := &b.progress
	p.mu.Lock()
	defer p.mu.Unlock()
	seen, done := p.seen, p.done[b.commandsOf(role)]
	if seen == 0 && done == 0 {
		return nil
	}
	return []timer.Position{{Log: b.logOf(p.created), Committed: number(done), Observed: number(seen)}}
}

// number converts a sequence or a size to the type that positions and logs use.
func number(n uint64) int64 { return int64(min(n, 1<<62)) } //nolint:gosec // bounded

// History returns b, since the stream keeps messages that were acked.
func (b *Broker) History() (broker.History, string) { return b, "" }

// Logs returns the stream, if it is there.
func (b *Broker) Logs(ctx context.Context, role string) (logs []broker.Log, err error) {
	err = b.withSession(ctx, func(ctx context.Context, s *session) error {
		consumer, err := b.lookUpConsumer(ctx, s, b.commandsOf(role))
		if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return fmt.Errorf("consumer %s: %w", b.commandsOf(role), err)
		}
		stream, err := b.lookUpStream(ctx, s) // asked after the consumer, so that Last >= Delivered
		if err != nil {
			return fmt.Errorf("stream %s: %w", b.opt.Stream, err)
		}
		oldest, err := b.oldestCommand(ctx, s)
		logs = []broker.Log{{
			Name:      b.logOf(stream.Created),
			Acked:     number(consumer.AckFloor.Stream),
			Delivered: number(consumer.Delivered.Stream),
			Pending:   int64(consumer.NumAckPending),
			Last:      number(stream.State.LastSeq),
			Oldest:    oldest,
			Bytes:     number(stream.State.Bytes),
			MaxBytes:  max(0, stream.Config.MaxBytes),
		}}
		return err
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	return logs, err
}

// oldestCommand returns when the oldest command of the stream was stored, zero if there
// is none. The age of the stream does not tell: consumed messages may have been removed,
// and dead letters stay.
func (b *Broker) oldestCommand(ctx context.Context, s *session) (time.Time, error) {
	first, _, err := b.get(ctx, s, b.opt.Stream, getRequest{Sequence: 1, Filter: b.opt.Routing.Subscription()})
	return first.Time, err
}

// Used reports whether the server keeps requests for commands of the role. It keeps the
// requests of a process that has ended, or is cut off, until they expire after 5 s. A
// process that has 2,048 messages in progress asks for no more. If it settles none of them
// for 5 s, it does not count.
func (b *Broker) Used(ctx context.Context, role string) (used bool, err error) {
	durable := b.commandsOf(role)
	err = b.withSession(ctx, func(ctx context.Context, s *session) error {
		info, err := b.lookUpConsumer(ctx, s, durable)
		used = info.NumWaiting > 0
		return err
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConsumerNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("consumer %s: %w", durable, err)
	}
	return used, nil
}
