package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/inflight"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/internal/retry"
)

// partitionsInterval is the interval between two polls for new partitions of a topic, or
// for a topic that does not exist yet.
const partitionsInterval = time.Second

// A listener reads a topic.
type listener struct {
	*kgo.Client
	broker  *Broker
	topic   string
	offsets map[int32]kgo.Offset // where it began to read each partition
}

// listen returns a listener that reads a topic from its end. Messages that are published
// while the connection is broken come later.
func (b *Broker) listen(ctx context.Context, topic string) (inflight.Listener, error) {
	client, err := b.keeper.Current()
	if err != nil {
		return nil, err
	}
	// Asking for permissions makes the library look up a topic again.
	ctx, cancel := context.WithTimeout(kadm.WithAuthorizedOps(ctx), apiTimeout)
	defer cancel()
	var ends kadm.ListedOffsets
	admin := kadm.NewClient(client)
	if _, err = b.ensure(ctx, client, topic); err == nil {
		err = readable(ctx, admin, topic)
	}
	for n := 1; err == nil; n++ {
		ends, err = admin.ListCommittedOffsets(ctx, topic)
		if err = cmp.Or(err, ends.Error()); err == nil {
			break
		}
		if kerr.IsRetriable(err) && pause.For(ctx, retry.Connection.After(n)) { // no leader yet
			err = nil
		}
	}
	if err != nil && !errors.Is(err, errMissing) { // a missing topic is read from when it is made
		return nil, classify(err)
	}
	l := &listener{broker: b, topic: topic, offsets: make(map[int32]kgo.Offset)}
	maps.Copy(l.offsets, ends.KOffsets()[topic])
	l.Client, err = b.dial(kgo.MaxDecompressBatchBytes(maxBatch), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: l.offsets}))
	return l, err
}

// readable returns a [broker.ErrDenied] if the server says that this user may not read a
// topic. Without this check the tail would get no message and no error.
func readable(ctx context.Context, admin *kadm.Client, topic string) error {
	found, err := admin.ListTopics(ctx, topic)
	if may := found[topic].AuthorizedOperations; err == nil && len(may) > 0 && !slices.Contains(may, kadm.OpRead) {
		return fmt.Errorf("%w: Read on topic %s", broker.ErrDenied, topic)
	}
	return err
}

// Receive sends messages until ctx is done. It also reads partitions that are added
// meanwhile.
func (l *listener) Receive(ctx context.Context, send func(*message.Message) bool) {
	var errs repeated
	for ; ctx.Err() == nil; l.addPartitions(ctx) {
		polling, cancel := context.WithTimeout(ctx, partitionsInterval)
		for polling.Err() == nil {
			fetches := l.PollFetches(polling)
			if err := skipTooLarge(l.Client, fetches); err != nil && errs.isNew(ctx, err) {
				l.broker.log.WarnContext(ctx, "tail has errors, will retry", "error", err)
			}
			for r := range fetches.RecordsAll() {
				if r.Value == nil && kindOf(l.broker.opt.Routing, l.topic) == broker.DeadLetter {
					continue // a dead letter was removed
				}
				if !send(unmarshal(r)) {
					cancel()
					return
				}
			}
		}
		cancel()
	}
}

// addPartitions begins to read new partitions, from their beginning.
func (l *listener) addPartitions(ctx context.Context) {
	details, err := kadm.NewClient(l.Client).ListTopics(ctx, l.topic)
	if err != nil || details[l.topic].Err != nil {
		return // the next call may succeed
	}
	added := make(map[int32]kgo.Offset)
	for number := range details[l.topic].Partitions {
		if _, reads := l.offsets[number]; !reads {
			added[number] = kgo.NewOffset().AtStart()
		}
	}
	if len(added) > 0 {
		maps.Copy(l.offsets, added)
		l.AddConsumePartitions(map[string]map[int32]kgo.Offset{l.topic: added})
	}
}
