package nats

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/timer"
)

// followUps is how often the server is asked how far a role has acked after the last
// message: it counts acks a moment later.
const followUps = 2

// A record is what this process knows of a stream. One that is deleted and made again
// is another stream, with a record of its own. A nil one notes nothing.
type record struct {
	name    string        // of the log
	created time.Time     // when the stream was
	seen    atomic.Uint64 // the highest sequence that was received or published

	mu   sync.Mutex
	done map[string]uint64 // by role: the highest sequence up to which all commands were acked
}

// note notes that a message was received or published.
func (r *record) note(sequence uint64) {
	if r == nil {
		return
	}
	for {
		if seen := r.seen.Load(); sequence <= seen || r.seen.CompareAndSwap(seen, sequence) {
			return
		}
	}
}

// settle notes up to where a role has acked all commands.
func (r *record) settle(role string, sequence uint64) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done[role] = max(r.done[role], sequence)
}

// logOf returns the name of the log that a stream is.
func logOf(info *jetstream.StreamInfo) string {
	return info.Config.Name + "@" + info.Created.UTC().Format(time.RFC3339Nano)
}

// identify returns the record of a stream that was found. It is a new one if the stream
// is.
func (b *Broker) identify(info *jetstream.StreamInfo) *record {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.known.Load()
	if known == nil || !known.created.Equal(info.Created) {
		known = &record{name: logOf(info), created: info.Created, done: make(map[string]uint64)}
		b.known.Store(known)
	}
	return known
}

// knownStream returns the record of the stream that is there now, nil for a client.
func (b *Broker) knownStream(ctx context.Context, s *session) (*record, error) {
	if b.opt.Client {
		return nil, nil
	}
	info, err := b.lookUpStream(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", b.opt.Stream, err)
	}
	return b.identify(info), nil
}

// Positions returns how far the role has acked the commands of the stream, as the server
// said a moment ago, and how far this process has received or published.
func (b *Broker) Positions(role string) []timer.Position {
	r := b.known.Load()
	if r == nil {
		return nil
	}
	seen := r.seen.Load()
	r.mu.Lock()
	done := r.done[role]
	r.mu.Unlock()
	if seen == 0 && done == 0 {
		return nil
	}
	return []timer.Position{{Log: r.name, Committed: number(done), Observed: number(seen)}}
}

// number returns a sequence as positions have it.
func number(n uint64) int64 { return int64(min(n, 1<<62)) } //nolint:gosec // bounded

// hasNews reports whether messages came or were settled since the server was asked.
func (s *subscription) hasNews() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	news := s.news > 0
	s.news = max(s.news-1, 0)
	return news
}

// History returns b: the stream keeps what was read.
func (b *Broker) History() (broker.History, string) { return b, "" }

// Logs returns the stream, if it is there.
func (b *Broker) Logs(ctx context.Context, role string) (logs []broker.Log, err error) {
	err = b.withSession(ctx, func(ctx context.Context, s *session) error {
		found, err := b.lookUpLog(ctx, s, role)
		if err == nil {
			logs = []broker.Log{found}
		}
		return err
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	return logs, err
}

// lookUpLog returns the stream as a log of commands.
func (b *Broker) lookUpLog(ctx context.Context, s *session, role string) (found broker.Log, err error) {
	consumer, err := b.lookUpConsumer(ctx, s, b.commandsOf(role))
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return found, fmt.Errorf("consumer %s: %w", b.commandsOf(role), err)
	}
	stream, err := b.lookUpStream(ctx, s) // behind the consumer, so that Last is not below Delivered
	if err != nil {
		return found, fmt.Errorf("stream %s: %w", b.opt.Stream, err)
	}
	found = broker.Log{
		Name:      logOf(stream),
		Acked:     number(consumer.AckFloor.Stream),
		Delivered: number(consumer.Delivered.Stream),
		Pending:   int64(consumer.NumAckPending),
		Last:      number(stream.State.LastSeq),
		Bytes:     number(stream.State.Bytes),
		MaxBytes:  max(0, stream.Config.MaxBytes),
	}
	found.Oldest, err = b.oldestCommand(ctx, s)
	return found, err
}

// oldestCommand returns when the oldest command of the stream was stored, zero if there
// is none. What is consumed may have been removed before, and dead letters stay: the age
// of the stream says nothing.
func (b *Broker) oldestCommand(ctx context.Context, s *session) (time.Time, error) {
	first, err := b.get(ctx, s, getRequest{Sequence: 1, Filter: b.opt.Routing.Subscription()})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return time.Time{}, nil
	}
	return first.Time, err
}

// Used reports whether the server keeps more requests for commands of the role than this
// process has made. It keeps those of a process that has ended, or is cut off, until they
// expire: 5 s. After this process was cut off its own may count that long, too. A process
// that asks for nothing since it has 2,048 messages in progress, none of which was
// settled for 5 s, does not count.
func (b *Broker) Used(ctx context.Context, role string) (used bool, err error) {
	durable := b.commandsOf(role)
	err = b.withSession(ctx, func(ctx context.Context, s *session) error {
		ours := b.waiting(durable)
		info, err := b.lookUpConsumer(ctx, s, durable)
		used = int64(info.NumWaiting) > max(ours, b.waiting(durable)) // which may have changed meanwhile
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

// waiting returns how many requests of this process the server may keep, at most.
func (b *Broker) waiting(durable string) (n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.open {
		if s.durable == durable {
			n += s.waiting.Load()
		}
	}
	return n
}
