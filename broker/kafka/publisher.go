package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/broker"
)

const (
	openTimeout   = 10 * time.Second       // longest wait of a call for topics that are searched or made
	cancelTimeout = 500 * time.Millisecond // longest wait for records that were given up; the library notices within 250 ms
	maxRecord     = 1_000_000              // bytes of the largest record; Kafka's own default is a little more
	maxBuffered   = 256 << 20              // bytes of all calls together that have no result yet
)

// A call gives up the rest of its messages when none had a result for some
// ticks: after 2 s, after 10 s if it has no result at all, and after 200 ms while a
// partition of its topics is known to fail, since a retry of its messages must not
// delay those beside them.
const (
	giveUpTicks = 4
	silentTicks = 20
	giveUpTick  = 500 * time.Millisecond
	failingTick = 50 * time.Millisecond
	failingTime = time.Minute // since the last failure
)

// errNoAnswer says that a message may have been stored, or not.
var errNoAnswer = errors.New("no answer")

// producing returns the options of a client that publishes.
func (b *Broker) producing() []kgo.Opt {
	return []kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()),       // and idempotent, which is the default
		kgo.AllowIdempotentProduceCancellation(), // what a call has given up is not sent later: its caller publishes it again
		kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()), // readable by every client; bodies are small
		kgo.ProducerBatchMaxBytesFn(b.batchLimit),
		kgo.MaxBufferedBytes(maxBuffered),
		kgo.MaxBufferedRecords(1 << 20),
		kgo.ProduceRequestTimeout(5 * time.Second),
		kgo.UnknownTopicRetries(10), // a topic that was made just now
	}
}

// publisher publishes. See [broker.Publisher] for its contract.
type publisher struct{ *Broker }

// Publish publishes messages. It gives up those of a partition that accepts
// nothing after 2 seconds.
func (p publisher) Publish(ctx context.Context, messages ...broker.Message) []error {
	if len(messages) == 0 {
		return nil
	}
	client, err := p.keeper.Current()
	if err != nil {
		return broker.All(len(messages), fmt.Errorf("publish: %w", err))
	}
	records, results := make([]*kgo.Record, len(messages)), make([]error, len(messages))
	topics := p.openAll(ctx, client, messages)
	for i, m := range messages {
		if results[i] = topics[m.Topic].unusable; results[i] != nil {
			continue
		}
		r := marshal(m.Topic, kindOf(p.opt.Routing, m.Topic), m.Message)
		if n, limit := weight(r), p.batchLimit(m.Topic); n > int(limit) {
			results[i] = fmt.Errorf("%w: about %d bytes are more than %d", broker.ErrRefused, n, limit)
			continue
		}
		r.Partition = unknownPartition
		records[i] = r
	}
	p.send(ctx, client, topics, records, results)
	for i, r := range records {
		if r != nil && ofBatch(results[i]) { // a record of its batch is at fault, perhaps another one
			p.mu.Lock()
			p.unsure(r.Topic) // its limit may have changed
			p.mu.Unlock()
			p.send(ctx, client, topics, records[i:i+1], results[i:i+1])
		}
	}
	for i, err := range results {
		if err != nil {
			results[i] = failure(messages[i].Topic, records[i], classify(err))
		}
	}
	return results
}

// unknownPartition is that of a record before the client library has chosen one.
const unknownPartition = -1

// failure returns the result of a message that failed, with its partition if it
// is known and the topic is not refused as a whole.
func failure(topic string, r *kgo.Record, err error) error {
	err = fmt.Errorf("publish to %.60q: %w", topic, err)
	if r == nil || r.Partition == unknownPartition || errors.Is(err, broker.ErrRefused) || errors.Is(err, broker.ErrUnavailable) {
		return err
	}
	return broker.PartitionError{Partition: strconv.Itoa(int(r.Partition)), Err: err}
}

// An opened topic is one that a call publishes to.
type opened struct {
	unusable error           // what is wrong with it
	id       kadm.TopicID    // before anything is sent
	seen     map[int32]int64 // for [Broker.Positions], by partition; nil if the topic has none
}

// openAll makes sure that the topics of messages can be published to.
func (p publisher) openAll(ctx context.Context, client *kgo.Client, messages []broker.Message) map[string]opened {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	topics := make(map[string]opened)
	for _, m := range messages {
		if _, tried := topics[m.Topic]; tried {
			continue
		}
		o := opened{unusable: checkTopic(m.Topic)}
		if o.unusable == nil {
			o.unusable = p.ensure(ctx, client, m.Topic)
		}
		if o.unusable != nil {
			p.keeper.Recheck()
		} else {
			o.id = p.topicID(m.Topic)
			if matches(p.opt.Routing.Events, m.Topic) || matches(p.opt.Routing.DeadLetters, m.Topic) {
				o.seen = make(map[int32]int64)
			}
		}
		topics[m.Topic] = o
	}
	return topics
}

// A call is what one Publish sends at once.
type call struct {
	publisher
	client  *kgo.Client
	topics  map[string]opened
	records []*kgo.Record // nil: has its result already
	results []error
	settled chan result
	missing int // records without a result
	resent  int
}

// A result is that of the record with a number.
type result struct {
	i         int
	partition int32
	offset    int64
	err       error
}

// send sends records in their order and waits for their results, until ctx
// ends, the connection is lost, or nothing has moved for a while.
func (p publisher) send(ctx context.Context, client *kgo.Client, topics map[string]opened, records []*kgo.Record, results []error) {
	c := call{publisher: p, client: client, topics: topics, records: records, results: results, settled: make(chan result, len(records))}
	sending, cancel := context.WithCancel(ctx)
	defer cancel()
	for i, r := range records {
		if r != nil {
			c.missing++
			c.results[i] = errNoAnswer
			c.produce(sending, i)
		}
	}
	if c.missing == 0 {
		return
	}
	if why := c.collect(sending); why != nil {
		cancel() // the client library gives up what it has, and sends none of it later
		c.abandon(why)
	}
	c.learn()
	c.remember()
}

func (c *call) produce(ctx context.Context, i int) {
	r := *c.records[i]
	c.client.TryProduce(ctx, &r, func(r *kgo.Record, err error) {
		c.settled <- result{i, r.Partition, r.Offset, err}
	})
}

// collect receives results. It returns why it does not wait for the rest of them,
// nil if it has all.
func (c *call) collect(ctx context.Context) error {
	every, most, all := giveUpTick, silentTicks, c.missing
	if c.anyFails() {
		every, most = failingTick, giveUpTicks
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for idle := 0; c.missing > 0; {
		select {
		case r := <-c.settled:
			if sideEffect(r.err) && ctx.Err() == nil && c.resent < 3*len(c.records) {
				c.resent++
				c.produce(ctx, r.i)
				continue
			}
			c.note(r)
			idle = 0
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", errNoAnswer, ctx.Err())
		case <-tick.C:
			if _, err := c.keeper.Current(); err != nil {
				return err
			}
			if idle++; idle < giveUpTicks || idle < most && c.missing == all {
				continue
			}
			// A server that pauses for some seconds fails no message: it has the
			// time of two pings.
			err := answers(ctx, c.client)
			switch {
			case err != nil && ctx.Err() == nil:
				return fmt.Errorf("%w: %w: %w", ErrNotConnected, errNoAnswer, err)
			case len(c.settled) == 0:
				return fmt.Errorf("%w of its partition", errNoAnswer)
			}
		}
	}
	return nil
}

func (c *call) note(r result) {
	c.results[r.i] = r.err
	c.records[r.i].Partition, c.records[r.i].Offset = r.partition, r.offset
	c.missing--
}

// abandon waits for the library to give up what is left: it may have been stored
// just now. What was not has the reason as its result.
func (c *call) abandon(why error) {
	late := time.NewTimer(cancelTimeout)
	defer late.Stop()
	for waiting := true; waiting && c.missing > 0; {
		select {
		case r := <-c.settled:
			if r.err != nil {
				r.err = why
			}
			c.note(r)
		case <-late.C:
			waiting = false
		}
	}
	for i, r := range c.records {
		if r != nil && c.results[i] == errNoAnswer { //nolint:errorlint // that very one
			c.results[i] = why
		}
	}
}

// sideEffect reports whether a record failed because one before it in its
// partition was given up by another call, or because its topic was made again.
// Such a record is sent again.
func sideEffect(err error) bool {
	return err != nil && !errors.As(err, new(*kerr.Error)) && !errors.Is(err, kgo.ErrMaxBuffered) && !errors.Is(err, kgo.ErrClientClosed)
}

// anyFails reports whether a partition of the topics failed a short time ago.
func (c *call) anyFails() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.opt.Clock.Now()
	topics := make(map[string]bool)
	for id, last := range c.failing {
		if now.Sub(last) > failingTime {
			delete(c.failing, id)
			continue
		}
		topics[id.topic] = true
	}
	return len(topics) > 0 && slices.ContainsFunc(c.records, func(r *kgo.Record) bool { return r != nil && topics[r.Topic] })
}

// learn notes which partitions fail, and which topics are no more.
func (c *call) learn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	failed := false
	for i, r := range c.records {
		if r == nil {
			continue
		}
		id := partition{r.Topic, r.Partition}
		err := classify(c.results[i])
		switch {
		case err == nil:
			delete(c.failing, id)
			continue
		case errors.Is(err, broker.ErrRefused):
			continue
		case !errors.Is(err, broker.ErrUnavailable) && len(c.failing) < maxKnown:
			c.failing[id] = c.opt.Clock.Now()
		}
		failed = true
		if errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID) {
			c.unsure(r.Topic)
		}
	}
	if failed {
		c.keeper.Recheck()
	}
}

// ofBatch reports whether an error is about all records that were sent in one
// batch.
func ofBatch(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge) || errors.Is(err, kerr.InvalidRecord)
}

// classify makes an error a [broker.ErrRefused] if no retry can help, and a
// [broker.ErrUnavailable] if there is no connection any more.
func classify(err error) error {
	switch {
	case errors.Is(err, broker.ErrRefused):
	case ofBatch(err), errors.Is(err, kerr.InvalidTopicException):
		return fmt.Errorf("%w: %w", broker.ErrRefused, err)
	case errors.Is(err, kgo.ErrClientClosed):
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return err
}
