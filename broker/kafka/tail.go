package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/broker/inflight"
	"github.com/event-service-agent/timer-service/internal/pause"
)

// Times between looks for what is new.
const (
	partitionLook = 5 * time.Second        // partitions of a topic
	topicLook     = 200 * time.Millisecond // a topic that is not there
)

// tail subscribes to what is published from now on. See [broker.Broker] for its
// contract.
type tail struct {
	*inflight.Subscriptions
	broker *Broker
}

// Subscribe returns when it is known where the topic ends now, so that it
// returns an error while there is no connection. What is published while the
// connection is broken comes later.
func (t *tail) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	if err := checkTopic(topic); err != nil {
		return nil, err
	}
	if !t.Join() {
		return nil, ErrClosed
	}
	reader, known, err := t.begin(ctx, topic)
	if err != nil {
		t.Left()
		t.broker.term.Done()
		return nil, fmt.Errorf("tail %s: %w", topic, err)
	}
	out := make(chan *message.Message)
	ctx, stop := t.Until(ctx)
	go func() {
		defer t.broker.term.Done()
		defer t.Left()
		defer close(out)
		defer reader.Close()
		defer stop()
		t.forward(ctx, reader, topic, known, out)
	}()
	return out, nil
}

// begin returns a client that reads the topic from its end, and the partitions
// that it reads.
func (t *tail) begin(ctx context.Context, topic string) (_ *kgo.Client, known map[int32]bool, err error) {
	client, err := t.broker.current()
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	known = make(map[int32]bool)
	opts := []kgo.Opt{kgo.MaxDecompressBatchBytes(maxBatch)}
	switch err := t.broker.ensure(ctx, client, topic); {
	case errors.Is(err, errMissing): // it begins when somebody makes it
	case err != nil:
		return nil, nil, err
	default:
		ends, err := endOffsets(ctx, client, topic)
		if err != nil {
			return nil, nil, err
		}
		from := make(map[int32]kgo.Offset)
		for number, offset := range ends {
			from[number] = kgo.NewOffset().At(offset)
			known[number] = true
		}
		opts = append(opts, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	}
	reader, err := t.broker.dial(opts...)
	return reader, known, err
}

// endOffsets returns where the partitions of a topic end. It waits for leaders.
func endOffsets(ctx context.Context, client *kgo.Client, topic string) (map[int32]int64, error) {
	return offsets(ctx, topic, kadm.NewClient(client).ListEndOffsets)
}

// offsets asks for an offset of each partition of a topic until each has one.
func offsets(
	ctx context.Context, topic string, list func(context.Context, ...string) (kadm.ListedOffsets, error),
) (map[int32]int64, error) {
	for n := 1; ; n++ {
		listed, err := list(ctx, topic)
		if err == nil {
			err = listed.Error()
		}
		if err == nil && len(listed[topic]) > 0 {
			found := make(map[int32]int64)
			for number, o := range listed[topic] {
				found[number] = o.Offset
			}
			return found, nil
		}
		if !waitAgain(ctx, n) {
			return nil, fmt.Errorf("look for the ends of topic %s: %w", topic, err)
		}
	}
}

// forward delivers messages until ctx is done. It looks for new partitions from
// time to time, and reads them from their beginning.
func (t *tail) forward(ctx context.Context, reader *kgo.Client, topic string, known map[int32]bool, out chan<- *message.Message) {
	var looking sync.WaitGroup
	defer looking.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	looking.Go(func() { t.look(ctx, reader, topic, known) })
	told := ""
	for ctx.Err() == nil {
		fetches := reader.PollFetches(ctx)
		fetches.EachError(func(_ string, number int32, err error) {
			if ctx.Err() == nil && err.Error() != told {
				told = err.Error()
				t.broker.log.WarnContext(ctx, "trouble with a tail, will retry", "topic", topic, "partition", number, "error", err)
			}
		})
		for r := range fetches.RecordsAll() {
			if r.Value == nil && kindOf(t.broker.opt.Routing, topic) == deadLetters {
				continue // a letter was removed
			}
			msg := unmarshal(r)
			msg.SetContext(ctx)
			select {
			case out <- msg:
			case <-ctx.Done():
				return
			}
		}
	}
}

// look adds partitions that are new.
func (t *tail) look(ctx context.Context, reader *kgo.Client, topic string, known map[int32]bool) {
	for {
		wait := partitionLook
		if len(known) == 0 {
			wait = topicLook
		}
		if !pause.For(ctx, wait) {
			return
		}
		details, err := kadm.NewClient(reader).ListTopics(ctx, topic)
		if err != nil || details[topic].Err != nil {
			continue // the next look may tell
		}
		added := make(map[int32]kgo.Offset)
		for number := range details[topic].Partitions {
			if !known[number] {
				known[number] = true
				added[number] = kgo.NewOffset().AtStart()
			}
		}
		if len(added) > 0 {
			reader.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: added})
		}
	}
}
