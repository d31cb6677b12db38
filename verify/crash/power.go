package crash

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/verify/crash/history"
)

// firstCut cuts the power while the service starts for the first time, when nothing is
// promised yet: the half of a start must not be in the way of the next one.
func (r *run) firstCut(ctx context.Context) error {
	if !r.opt.Mode.cutsPower() || r.opt.Kills == 1 {
		return nil
	}
	if err := r.rest(ctx, firstTime.any(r.rand)); err != nil {
		return err
	}
	r.faults++
	return r.cutPower(ctx, r.instances[0])
}

// cutPower cuts the power of the disk under an instance, and starts it again.
func (r *run) cutPower(ctx context.Context, in *instance) error {
	r.over(in, time.Now())
	in.life.meant = true
	if err := r.opt.Disk.Cut(ctx, in.life.PID(), in.life.Kill); err != nil {
		return fmt.Errorf("cut %d of the power: %w", r.faults+1, err)
	}
	return r.begin(ctx, in)
}

// readStream reads all messages of the stream at the end, where it has to
// hold everything: within a service that was killed, on a disk that lost its power, or on
// servers of which one was lost.
func (r *run) readStream(ctx context.Context) error {
	if !r.opt.Mode.embeds() && !r.opt.Mode.cutsPower() && r.cluster == nil {
		return nil
	}
	stream := r.wire.(*natsWire).stream // these modes need the broker NATS
	ctx, cancel := context.WithTimeout(ctx, r.opt.Settle)
	defer cancel()
	info, err := stream.Info(ctx)
	if err != nil {
		return fmt.Errorf("read the state of the stream: %w", err)
	}
	r.stored = make(map[uint64]history.Message, info.State.Msgs)
	if info.State.Msgs == 0 {
		return nil
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
	if err != nil {
		return fmt.Errorf("read the stream: %w", err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		return fmt.Errorf("read the stream: %w", err)
	}
	defer messages.Stop()
	for last := uint64(0); last < info.State.LastSeq; {
		msg, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return fmt.Errorf("read the stream after %d of %d messages: %w", len(r.stored), info.State.Msgs, err)
		}
		m, err := kept(msg)
		if err != nil {
			return fmt.Errorf("read the stream: %w", err)
		}
		r.stored[m.Seq], last = m, m.Seq
	}
	return nil
}

// verdict judges the records. If the stream was read, it is compared with the acks and
// deliveries of the broker, and only messages that it has kept count.
func (r *run) verdict() history.Verdict {
	h := r.recorder.History()
	if r.stored == nil {
		return history.Check(h)
	}
	live := h.Messages
	h.Messages = nil
	for _, seq := range slices.Sorted(maps.Keys(r.stored)) {
		if m := r.stored[seq]; m.Topic != history.CommandsTopic {
			h.Messages = append(h.Messages, m)
		}
	}
	verdict := history.Check(h)
	for _, s := range h.Sent {
		if m, ok := r.stored[s.Seq]; s.Acked && (!ok || m.Topic != history.CommandsTopic || !bytes.Equal(m.Body, s.Body)) {
			verdict.Add(history.Unstored, "the broker acked %s (%s, id %s) as %d, and has there: %q", s.Key, s.Note, s.ID, s.Seq, m.Body)
		}
	}
	for _, seen := range live {
		if m, ok := r.stored[seen.Seq]; !ok || m.Topic != seen.Topic || !bytes.Equal(m.Body, seen.Body) {
			verdict.Add(history.Vanished, "the broker delivered %d on %s, and has there on %s: %q", seen.Seq, seen.Topic, m.Topic, m.Body)
		}
	}
	return verdict
}
