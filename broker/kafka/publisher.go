package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/connection"
)

const (
	openTimeout = 10 * time.Second // longest wait of a call for topics that are looked up or made
	// cancelTimeout is the longest wait for records that were given up. The library
	// notices within 250 ms.
	cancelTimeout = 500 * time.Millisecond
	maxRecord     = 1_000_000 // bytes of a record or a batch; Kafka's default limit is a little higher
	maxBuffered   = 256 << 20 // bytes without a result yet, of all calls together
)

// A call gives up the rest of its messages when none got a result for a while. That while
// is short if a partition of its topics is known to fail, since a retry of its messages
// must not delay the other messages of the call.
const (
	silence     = 10 * time.Second       // until the first result
	giveUp      = 2 * time.Second        // between results
	failingWait = 200 * time.Millisecond // replaces both for a failing topic
	failingTime = time.Minute            // how long a topic counts as failing after a failure
)

// errNoAnswer says that a message may have been stored, or not.
var errNoAnswer = errors.New("no answer")

// producing returns the options of a client that publishes.
func (b *Broker) producing() []kgo.Opt {
	return []kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()), // the producer is idempotent by default
		// A record that a call has given up must not be sent later, since the caller
		// publishes it again.
		kgo.AllowIdempotentProduceCancellation(),
		kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()), // every client reads it; bodies are small
		kgo.ProducerBatchMaxBytes(maxRecord),
		kgo.MaxBufferedBytes(maxBuffered),
		kgo.MaxBufferedRecords(1 << 20),
		kgo.ProduceRequestTimeout(5 * time.Second),
		kgo.UnknownTopicRetries(10), // a topic may have been made just now
	}
}

// publisher publishes. See [broker.Publisher] for its contract.
type publisher struct{ *Broker }

// An outgoingMessage is a message of a call to Publish.
type outgoingMessage struct {
	topic  *destination
	record *kgo.Record // nil if the topic is unusable
	err    error       // result in the call
}

// A destination is a topic that a call publishes to.
type destination struct {
	topicState // state before the call has sent anything

	kind     broker.Kind
	unusable error // why it can't be used; nil if it can
}

// Publish publishes messages. It gives up the messages of a partition that accepts
// nothing for 2 seconds.
func (p publisher) Publish(ctx context.Context, messages ...broker.Message) []error {
	if len(messages) == 0 {
		return nil
	}
	client, err := p.keeper.Current()
	if err != nil {
		return broker.All(len(messages), fmt.Errorf("publish: %w", err))
	}
	all := p.open(ctx, client, messages)
	sent := slices.DeleteFunc(slices.Clone(all), func(o *outgoingMessage) bool { return o.record == nil })
	p.send(ctx, client, sent)
	// The server refuses a whole batch if it is larger than the topic allows, or if one of
	// its records is at fault. So its records are sent again in smaller batches.
	for size := len(sent); size > 1; {
		size = (size + 1) / 2
		sent = slices.DeleteFunc(sent, func(o *outgoingMessage) bool { return !ofBatch(o.err) })
		for some := range slices.Chunk(sent, size) {
			p.send(ctx, client, some)
		}
	}
	results := make([]error, len(messages))
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, o := range all {
		if o.err == nil {
			continue
		}
		results[i] = failure(messages[i].Topic, o.record, classify(o.err))
		if ctx.Err() == nil { // otherwise the caller gave up, which says nothing about the topic
			p.learn(o.record, results[i])
		}
	}
	return results
}

// unknownPartition is the partition of a record before the client library has chosen one.
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

// learn notes that a topic fails, or does not exist any more. The caller holds the lock.
func (b *Broker) learn(r *kgo.Record, err error) {
	if errors.Is(err, broker.ErrRefused) {
		return
	}
	b.keeper.Recheck()
	if r == nil || errors.Is(err, broker.ErrUnavailable) {
		return
	}
	t := b.topics[r.Topic]
	t.failed = clock()
	t.fresh = t.fresh && !errors.Is(err, kerr.UnknownTopicOrPartition) && !errors.Is(err, kerr.UnknownTopicID)
	b.topics[r.Topic] = t
}

// open makes records of messages, and makes sure that their topics can be published to.
func (p publisher) open(ctx context.Context, client *kgo.Client, messages []broker.Message) []*outgoingMessage {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	topics, all := make(map[string]*destination), make([]*outgoingMessage, len(messages))
	for i, m := range messages {
		t := topics[m.Topic]
		if t == nil {
			t = &destination{kind: kindOf(p.opt.Routing, m.Topic)}
			t.topicState, t.unusable = p.ensure(ctx, client, m.Topic)
			topics[m.Topic] = t
		}
		if all[i] = (&outgoingMessage{topic: t, err: t.unusable}); t.unusable == nil {
			all[i].record = marshal(m.Topic, t.kind, m.Message)
		}
	}
	return all
}

// A call is a set of records that are sent together.
type call struct {
	client  *kgo.Client
	sent    []*outgoingMessage
	settled chan result
	missing int // records without a result
}

// A result is the result of the record with index i.
type result struct {
	i         int
	partition int32
	err       error
}

// send sends records in their order and waits for their results, until ctx ends, the
// connection is lost, or no result has come for a while.
func (p publisher) send(ctx context.Context, client *kgo.Client, sent []*outgoingMessage) {
	c := call{client: client, sent: sent, settled: make(chan result, len(sent)), missing: len(sent)}
	sending, cancel := context.WithCancel(ctx)
	defer cancel()
	first, next := silence, giveUp
	for i, o := range sent {
		if clock().Sub(o.topic.failed) < failingTime {
			first, next = failingWait, failingWait
		}
		o.err = errNoAnswer
		c.produce(sending, i)
	}
	if why := c.collect(sending, first, next); why != nil {
		cancel() // the client library gives up its records, and sends none of them later
		c.abandon(why)
	}
}

func (c *call) produce(ctx context.Context, i int) {
	r := *c.sent[i].record
	c.client.TryProduce(ctx, &r, func(r *kgo.Record, err error) {
		c.settled <- result{i, r.Partition, err}
	})
}

// collect receives results. The first one may take longer than the following ones. It
// returns nil when it has all, or the reason why it stopped waiting.
func (c *call) collect(ctx context.Context, first, next time.Duration) error {
	idle := time.NewTimer(first)
	defer idle.Stop()
	for resent := 0; c.missing > 0; {
		select {
		case r := <-c.settled:
			if sideEffect(r.err) && ctx.Err() == nil {
				if resent++; resent <= 3*len(c.sent) {
					c.produce(ctx, r.i)
				} else {
					idle.Reset(failingWait) // perhaps no server exists
				}
				continue
			}
			c.note(r)
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", errNoAnswer, ctx.Err())
		case <-idle.C:
			// A server that pauses for some seconds must not fail messages.
			err := answers(ctx, c.client)
			switch {
			case err != nil && ctx.Err() == nil:
				return fmt.Errorf("%w: %w: %w", connection.ErrNotConnected, errNoAnswer, err)
			case len(c.settled) == 0:
				return fmt.Errorf("%w of its partition", errNoAnswer)
			}
		}
		idle.Reset(next)
	}
	return nil
}

func (c *call) note(r result) {
	o := c.sent[r.i]
	o.record.Partition, o.err = r.partition, r.err
	c.missing--
}

// abandon waits until the library has given up the remaining records, since some may have
// been stored just now. The others get the reason as their result.
func (c *call) abandon(why error) {
	late := time.NewTimer(cancelTimeout)
	defer late.Stop()
	for c.missing > 0 {
		select {
		case r := <-c.settled:
			if r.err != nil {
				r.err = why
			}
			c.note(r)
		case <-late.C:
			c.missing = 0
		}
	}
	for _, o := range c.sent {
		if o.err == errNoAnswer { //nolint:errorlint // it is set unwrapped
			o.err = why
		}
	}
}

// sideEffect reports whether a record failed because one before it in its
// partition was given up by another call, or because its topic was made again.
// Such a record is sent again.
func sideEffect(err error) bool {
	return err != nil && !errors.As(err, new(*kerr.Error)) && !errors.Is(err, kgo.ErrMaxBuffered) && !errors.Is(err, kgo.ErrClientClosed)
}

// ofBatch reports whether an error applies to all records of a batch.
func ofBatch(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge) || errors.Is(err, kerr.InvalidRecord)
}

// classify makes an error a [broker.ErrRefused] if no retry can help, a
// [broker.ErrUnavailable] if the client is closed, and a [broker.ErrDenied] if a
// permission is missing.
func classify(err error) error {
	switch {
	case errors.Is(err, broker.ErrRefused), errors.Is(err, broker.ErrDenied):
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed), errors.Is(err, kerr.GroupAuthorizationFailed):
		return fmt.Errorf("%w: %w", broker.ErrDenied, err)
	case ofBatch(err), errors.Is(err, kerr.InvalidTopicException):
		return fmt.Errorf("%w: %w", broker.ErrRefused, err)
	case errors.Is(err, kgo.ErrClientClosed):
		return fmt.Errorf("%w: %w", connection.ErrClosed, err)
	}
	return err
}
