package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/broker"
)

const (
	publishTimeout = 20 * time.Second // longest wait of a call
	cancelTimeout  = 2 * time.Second  // longest wait for its end when it is given up
	maxRecord      = 1_000_000        // bytes of the largest record; Kafka's own default is a little more
	maxBuffered    = 64 << 20         // bytes on their way, of all calls together
)

// producing returns the options of the client that publishes.
func (b *Broker) producing() []kgo.Opt {
	return []kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()),       // and idempotent, which is the default
		kgo.AllowIdempotentProduceCancellation(), // what a call has given up is not sent behind its back; its caller does
		kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()), // readable by every client; bodies are small
		kgo.ProducerBatchMaxBytesFn(b.limitOf),
		kgo.MaxBufferedBytes(maxBuffered),
		kgo.RecordDeliveryTimeout(publishTimeout), // of what was not sent; else a retry would stand behind it
		kgo.ProduceRequestTimeout(5 * time.Second),
		kgo.UnknownTopicRetries(10), // a topic that was made a moment ago
	}
}

// publisher publishes. See [broker.Broker] for its contract.
type publisher struct{ *Broker }

// Close does nothing: the connection ends with [Broker.Run].
func (p publisher) Close() error { return nil }

// Publish returns when all in-sync replicas have all messages. Nothing is
// published if one of them is refused before it is sent.
func (p publisher) Publish(topic string, messages ...*message.Message) error {
	topics := make([]string, len(messages))
	for i := range topics {
		topics[i] = topic
	}
	return p.PublishTo(topics, messages)
}

// PublishTo publishes each message to the topic at the same index, otherwise as
// Publish does.
func (p publisher) PublishTo(topics []string, messages []*message.Message) error {
	if len(messages) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), publishTimeout)
	defer cancel()
	client, err := p.current()
	if err != nil {
		return fmt.Errorf("publish to %.60q: %w", topics[0], err)
	}
	records := make([]*kgo.Record, len(messages))
	for i, msg := range messages {
		if i == 0 || topics[i] != topics[i-1] {
			if err := p.open(ctx, client, topics[i]); err != nil {
				return fmt.Errorf("publish to %.60q: %w", topics[i], err)
			}
		}
		records[i] = marshal(topics[i], kindOf(p.opt.Routing, topics[i]), msg)
		if n, limit := weight(records[i]), p.limitOf(topics[i]); n > int(limit) {
			return fmt.Errorf("publish %.60q: %w: about %d bytes are more than %d", msg.UUID, broker.ErrRefused, n, limit)
		}
	}
	if err := p.send(ctx, client, records); err != nil {
		return fmt.Errorf("publish to %s: %w", topics[0], err)
	}
	return nil
}

// open makes sure that a topic can be published to.
func (p publisher) open(ctx context.Context, client *kgo.Client, topic string) error {
	if err := checkTopic(topic); err != nil {
		return err
	}
	return p.ensure(ctx, client, topic)
}

// send sends records one behind the other and waits for all acks, or for the
// end of ctx: what is on the wire then may be stored yet.
func (p publisher) send(ctx context.Context, client *kgo.Client, records []*kgo.Record) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := results{left: len(records), done: make(chan struct{})}
	for _, record := range records {
		client.Produce(ctx, record, r.add)
	}
	if !p.await(ctx, r.done) {
		cancel() // the client library lets go of what it has
		settle := time.NewTimer(cancelTimeout)
		defer settle.Stop()
		select {
		case <-r.done:
		case <-settle.C:
		}
	}
	failed, first := r.sum()
	if failed == 0 {
		return nil
	}
	p.check()
	if errors.Is(first, kerr.UnknownTopicOrPartition) || errors.Is(first, kerr.UnknownTopicID) {
		for _, record := range records {
			if p.forget(record.Topic) { // if somebody makes it again it is another
				client.PurgeTopicsFromProducing(record.Topic)
			}
		}
	}
	return fmt.Errorf("%d of %d messages: %w", failed, len(records), refusal(first))
}

// await waits for done. It returns false if ctx ended first, or the connection.
func (b *Broker) await(ctx context.Context, done <-chan struct{}) bool {
	for {
		b.mu.Lock()
		why, changed := b.why, b.changed
		b.mu.Unlock()
		if errors.Is(why, ErrNotConnected) || errors.Is(why, ErrClosed) {
			return false
		}
		select {
		case <-done:
			return true
		case <-ctx.Done():
			return false
		case <-changed:
		}
	}
}

// results are those of one call.
type results struct {
	mu     sync.Mutex
	left   int
	failed int
	first  error
	done   chan struct{}
}

// add notes the result of a record.
func (r *results) add(_ *kgo.Record, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.failed++
		if r.first == nil || !errors.Is(refusal(r.first), broker.ErrRefused) {
			r.first = err
		}
	}
	if r.left--; r.left == 0 {
		close(r.done)
	}
}

// sum returns how many records were not stored, as far as is known, and why.
func (r *results) sum() (failed int, first error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left > 0 && r.first == nil {
		return r.failed + r.left, errNoAnswer
	}
	return r.failed + r.left, r.first
}

// errNoAnswer says that messages may have been stored, or not.
var errNoAnswer = errors.New("no answer")

// refusal makes an error a [broker.ErrRefused] if no retry can help.
func refusal(err error) error {
	for _, e := range []error{kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidTopicException, kerr.InvalidRecord} {
		if errors.Is(err, e) {
			return fmt.Errorf("%w: %w", broker.ErrRefused, err)
		}
	}
	return err
}
