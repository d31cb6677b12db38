package nats

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/timer"
)

// A streamLog is our stream as a log, as far as this process knows it.
type streamLog struct {
	mu      sync.Mutex
	created time.Time // when the stream was created; zero before it was looked up
	kept    uint64    // sequence above which messages are needed; 0: all are
}

// identify notes when the stream was created. It reports whether that is the stream of
// before.
func (l *streamLog) identify(created time.Time) (same bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.created.IsZero() {
		l.created = created
	}
	return l.created.Equal(created)
}

// logOf returns the name of our stream as a log. It differs if the stream is made again.
func (b *Broker) logOf(created time.Time) string {
	return b.opt.Stream + "@" + created.UTC().Format(time.RFC3339Nano)
}

// Place returns the sequence of a message.
func (b *Broker) Place(_, position string) (log string, number int64, ok bool) {
	b.stream.mu.Lock()
	created := b.stream.created
	b.stream.mu.Unlock()
	number, err := strconv.ParseInt(position, 10, 64)
	return b.logOf(created), number, err == nil && !created.IsZero()
}

// Keep notes the lowest of the numbers of our stream.
func (b *Broker) Keep(numbers []timer.Number) {
	b.stream.mu.Lock()
	defer b.stream.mu.Unlock()
	kept := uint64(math.MaxUint64)
	for _, n := range numbers {
		if n.Log == b.logOf(b.stream.created) {
			kept = min(kept, uint64(max(0, n.Number)))
		}
	}
	if kept < math.MaxUint64 {
		b.stream.kept = kept
	}
}

// number converts a sequence or a size to the type that positions and logs use.
func number(n uint64) int64 { return int64(min(n, 1<<62)) } //nolint:gosec // bounded

// History returns b, since the stream keeps messages that were acked.
func (b *Broker) History() (broker.History, string) { return b, "" }

// Logs returns the stream once for each kind, if it is there.
//
// The order of the questions matters. All commands up to the end of the stream are settled if
// the last command is that was asked for after the end, by the floor that was asked for after
// that. The consumer's number of pending messages does not tell: the server counts a message
// there a moment after it has acked the publisher.
func (b *Broker) Logs(ctx context.Context, role string) (logs []broker.Log, err error) {
	err = b.withSession(ctx, func(ctx context.Context, s *session) error {
		stream, err := b.lookUpStream(ctx, s)
		if err != nil {
			return fmt.Errorf("stream %s: %w", b.opt.Stream, err)
		}
		command, err := b.lastCommand(ctx, s)
		if err != nil {
			return err
		}
		consumer, err := b.lookUpConsumer(ctx, s, b.commandsOf(role))
		if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return fmt.Errorf("consumer %s: %w", b.commandsOf(role), err)
		}
		oldest, err := b.oldestCommand(ctx, s)
		state := stream.State
		floor := consumer.AckFloor.Stream
		if command <= floor {
			floor = max(floor, state.LastSeq)
		}
		full := fullest(b.limits(ctx, s, stream))
		log := broker.Log{
			Name: b.logOf(stream.Created), First: number(max(1, state.FirstSeq)), Last: number(state.LastSeq),
			Bytes: full.used, MaxBytes: full.most, Limit: full.name,
		}
		for _, log.Kind = range []broker.Kind{broker.Commands, broker.Events, broker.DeadLetter} {
			log.Floor, log.Delivered, log.Oldest = log.Last, 0, time.Time{}
			if log.Kind == broker.Commands {
				log.Floor, log.Delivered, log.Oldest = number(floor), number(max(floor, consumer.Delivered.Stream)), oldest
				log.Last = max(log.Last, log.Floor)
			}
			logs = append(logs, log)
		}
		return err
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	return logs, err
}

// lastCommand returns the sequence of the last command in the stream, 0 if there is
// none.
func (b *Broker) lastCommand(ctx context.Context, s *session) (uint64, error) {
	last, err := b.get(ctx, s, b.opt.Stream, getRequest{Last: b.opt.Routing.Subscription()})
	if err != nil {
		return 0, fmt.Errorf("last command of stream %s: %w", b.opt.Stream, err)
	}
	return last.Sequence, nil
}

// CatchUp waits until all commands that the stream holds are settled.
func (b *Broker) CatchUp(ctx context.Context, role string) error {
	return broker.AwaitFloor(ctx, b, role)
}

// oldestCommand returns when the oldest command of the stream was stored, zero if there
// is none. The age of the stream does not tell: consumed messages may have been removed,
// and dead letters stay.
func (b *Broker) oldestCommand(ctx context.Context, s *session) (time.Time, error) {
	first, err := b.get(ctx, s, b.opt.Stream, getRequest{Sequence: 1, Filter: b.opt.Routing.Subscription()})
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
