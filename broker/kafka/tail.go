package kafka

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/event-service-agent/timer-service/broker/inflight"
	"github.com/event-service-agent/timer-service/internal/pause"
)

// missingInterval is the interval between two polls for a topic that does not exist yet.
const missingInterval = time.Second

// A listener reads a topic from its end.
type listener struct {
	broker  *Broker
	topic   string
	extents []extent // where it begins to read each partition; none while the topic is missing
}

// listen returns a listener that reads a topic from its end. Messages that are published
// while the connection is broken come later.
func (b *Broker) listen(ctx context.Context, topic string) (inflight.Listener, error) {
	client, err := b.keeper.Current()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	if _, err := b.ensure(ctx, client, topic); err != nil && !errors.Is(err, errMissing) {
		return nil, classify(err)
	}
	l := &listener{broker: b, topic: topic}
	err = pause.Until(ctx, func() (bool, error) {
		l.extents, err = extentsOf(ctx, kadm.NewClient(client), topic)
		if kerr.IsRetriable(err) { // it has no leader yet
			return false, nil
		}
		return true, err
	})
	for i := range l.extents {
		l.extents[i].start = l.extents[i].end
	}
	return l, classify(err)
}

// Receive sends messages until ctx is done. If the topic is missing, Receive reads it from
// the beginning when it is made. It does not read partitions that are added later.
func (l *listener) Receive(ctx context.Context, send func(*message.Message) bool) {
	for len(l.extents) == 0 && pause.For(ctx, missingInterval) {
		l.extents, _ = l.broker.extents(ctx, l.topic) // if it fails, the next call may succeed
	}
	for i := range l.extents {
		l.extents[i].end = math.MaxInt64
	}
	kind := kindOf(l.broker.opt.Routing, l.topic)
	err := l.broker.read(ctx, kind, l.extents, func(batch []storedRecord) error {
		for _, r := range batch {
			if !r.removal(kind) && !send(unmarshal(r.Record)) {
				return context.Canceled
			}
		}
		return nil
	})
	if ctx.Err() == nil {
		l.broker.log.WarnContext(ctx, "tail was interrupted, will go on with new messages", "topic", l.topic, "error", err)
	}
}

// Close does nothing: the listener has no client between two calls of Receive.
func (l *listener) Close() {}
