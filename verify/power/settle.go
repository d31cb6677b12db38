//go:build linux

package power

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/verify/crash"
	"github.com/event-service-agent/timer-service/verify/crash/history"
)

const (
	pollInterval = 500 * time.Millisecond // between two polls whether all is done
	quiet        = 2 * time.Second        // without a new message, when all is at rest
	missed       = 15 * time.Second       // the same, when something is missing: then it stays so
	askTimeout   = 5 * time.Second        // for an answer of the broker
)

// settle waits until the service, which nothing disturbs now, has finished: it
// has acked every command, every due time is over, and nothing new arrives.
// After a time it gives up, and the verdict lists what is missing.
func (r *run) settle(ctx context.Context) error {
	fmt.Fprintf(r.opt.Progress, "%d cuts done, waiting for the service to come to rest\n", r.cuts)
	began := r.now()
	last, lastAt := -1, began
	due := r.lastDue()
	for {
		if err := r.wait(ctx, pollInterval); err != nil {
			return err
		}
		now := r.now()
		if _, seen := r.recorder.Count(); seen != last {
			last, lastAt = seen, now
		}
		open, err := r.waiting(ctx)
		if err != nil || open > 0 || now.Before(due) {
			lastAt = now
		}
		switch still := now.Sub(lastAt); {
		case still > missed, still > quiet && r.nothingMissing():
			return nil
		case now.Sub(began) > r.opt.Settle:
			r.breach(history.Unsettled, "%s after the last cut %d commands wait for the service (%v)", r.opt.Settle, open, err)
			return nil
		}
	}
}

// lastDue returns the last due time that was asked for.
func (r *run) lastDue() (due time.Time) {
	for _, s := range r.recorder.History().Sent {
		if s.DueAt.After(due) {
			due = s.DueAt
		}
	}
	return due
}

func (r *run) nothingMissing() bool {
	v := history.Check(r.recorder.History())
	return v.Count(history.Lost) == 0 && v.Count(history.NoDeadLetter) == 0
}

// waiting returns how many commands the service has not acked, as the broker counts.
func (r *run) waiting(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return crash.Waiting(ctx, r.stream)
}

// readStream returns what the stream holds, commands and all.
func (r *run) readStream(ctx context.Context) (map[uint64]history.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, r.opt.Settle)
	defer cancel()
	info, err := r.stream.Info(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the state of the stream: %w", err)
	}
	stored := make(map[uint64]history.Message, info.State.Msgs)
	if info.State.Msgs == 0 {
		return stored, nil
	}
	consumer, err := r.stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
	if err != nil {
		return nil, fmt.Errorf("read the stream: %w", err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		return nil, fmt.Errorf("read the stream: %w", err)
	}
	defer messages.Stop()
	for {
		msg, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return nil, fmt.Errorf("read the stream after %d of %d messages: %w", len(stored), info.State.Msgs, err)
		}
		meta, err := msg.Metadata()
		if err != nil {
			return nil, fmt.Errorf("read the stream: %w", err)
		}
		m := history.Message{Topic: msg.Subject(), Seq: meta.Sequence.Stream, At: meta.Timestamp, Header: map[string]string{}, Body: msg.Data()}
		for name := range msg.Headers() {
			m.Header[name] = msg.Headers().Get(name)
		}
		stored[m.Seq] = m
		if m.Seq >= info.State.LastSeq {
			return stored, nil
		}
	}
}
