package kafka

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/broker/inflight"
	"github.com/event-service-agent/timer-service/internal/pause"
)

// Times between two polls for what is new.
const (
	partitionsInterval = 5 * time.Second        // partitions of a topic
	topicInterval      = 200 * time.Millisecond // a topic that is not there
)

// A listener reads a topic.
type listener struct {
	*kgo.Client
	broker *Broker
	topic  string
	known  map[int32]bool // partitions that it reads
}

// listen returns a listener that reads a topic from its end. What is published while
// the connection is broken comes later.
func (b *Broker) listen(ctx context.Context, topic string) (inflight.Listener, error) {
	if err := checkTopic(topic); err != nil {
		return nil, err
	}
	client, err := b.keeper.Current()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	known, from := make(map[int32]bool), make(map[int32]kgo.Offset)
	switch err := b.ensure(ctx, client, topic); {
	case errors.Is(err, errMissing): // it begins when the topic is made
	case err != nil:
		return nil, err
	default:
		extents, err := extentsOf(ctx, kadm.NewClient(client), topic)
		for n := 1; err != nil && pause.For(ctx, backoff(n)); n++ { // until there are leaders
			extents, err = extentsOf(ctx, kadm.NewClient(client), topic)
		}
		if err != nil {
			return nil, err
		}
		for _, e := range extents {
			from[e.number] = kgo.NewOffset().At(e.end)
			known[e.number] = true
		}
	}
	reader, err := b.dial(kgo.MaxDecompressBatchBytes(maxBatch), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	if err != nil {
		return nil, err
	}
	return &listener{reader, b, topic, known}, nil
}

// Receive sends messages until ctx is done, with those of partitions that are
// added meanwhile.
func (l *listener) Receive(ctx context.Context, send func(*message.Message) bool) {
	var adding sync.WaitGroup
	defer adding.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	adding.Go(func() { l.addPartitions(ctx) })
	last := ""
	for ctx.Err() == nil {
		fetches := l.PollFetches(ctx)
		fetches.EachError(func(_ string, number int32, err error) {
			if ctx.Err() == nil && err.Error() != last {
				last = err.Error()
				l.broker.log.WarnContext(ctx, "tail has errors, will retry", "topic", l.topic, "partition", number, "error", err)
			}
		})
		for r := range fetches.RecordsAll() {
			if r.Value == nil && kindOf(l.broker.opt.Routing, l.topic) == deadLetters {
				continue // a dead letter was removed
			}
			if !send(unmarshal(r)) {
				return
			}
		}
	}
}

// addPartitions reads partitions that are new from their beginning.
func (l *listener) addPartitions(ctx context.Context) {
	for {
		wait := partitionsInterval
		if len(l.known) == 0 {
			wait = topicInterval
		}
		if !pause.For(ctx, wait) {
			return
		}
		details, err := kadm.NewClient(l.Client).ListTopics(ctx, l.topic)
		if err != nil || details[l.topic].Err != nil {
			continue // the next poll may succeed
		}
		added := make(map[int32]kgo.Offset)
		for number := range details[l.topic].Partitions {
			if !l.known[number] {
				l.known[number] = true
				added[number] = kgo.NewOffset().AtStart()
			}
		}
		if len(added) > 0 {
			l.AddConsumePartitions(map[string]map[int32]kgo.Offset{l.topic: added})
		}
	}
}
