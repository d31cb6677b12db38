package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
)

// publishTimeout is the longest wait for the confirms of a call. A write that
// the server does not take ends sooner.
const publishTimeout = 15 * time.Second

// publisher publishes to the exchange. See [broker.Broker] for its contract.
type publisher struct{ *Broker }

// Close does nothing: the connection ends with [Broker.Run].
func (p publisher) Close() error { return nil }

// Publish returns when queues have all messages. Nothing is published if one of
// them is refused before it is sent.
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
	out := make([]sending, len(messages))
	for i, msg := range messages {
		ready, err := marshal(topics[i], msg)
		if err != nil {
			return fmt.Errorf("publish %.80q: %w", msg.UUID, err)
		}
		out[i] = sending{topic: topics[i], Publishing: ready}
	}
	if len(out) == 0 {
		return nil
	}
	if err := p.send(topics, out); err != nil {
		return fmt.Errorf("publish to %s: %w", topics[0], err)
	}
	return nil
}

func (p publisher) send(topics []string, messages []sending) error {
	if reason := p.out.blockedBy(); reason != "" {
		return fmt.Errorf("%w: %s", ErrBlocked, reason)
	}
	ctx, cancel := context.WithTimeout(context.Background(), publishTimeout)
	defer cancel()
	if err := p.ensure(ctx, topics); err != nil {
		return err
	}
	o, err := p.openOutlet(ctx)
	if err != nil {
		return err
	}
	for _, m := range messages {
		if m.bytes() > o.maxHeader {
			return fmt.Errorf("%w: properties larger than the %d bytes that the server takes", broker.ErrRefused, o.maxHeader)
		}
	}
	c := newCall(len(messages))
	o.send(ctx, c, messages)
	select {
	case <-c.done:
	case <-o.over:
		<-c.done // all that was on its way has an answer
	case <-ctx.Done():
		if reason := p.out.blockedBy(); reason != "" {
			return fmt.Errorf("%w: %s", ErrBlocked, reason)
		}
		return errNoConfirm
	}
	p.mend(c.failed.errs, o)
	return c.failed.join(len(messages))
}

// mend has what a failed call may have found missing made again.
func (p publisher) mend(errs []error, o *outlet) {
	for _, err := range errs {
		if returned, ok := errors.AsType[*returnedError](err); ok {
			p.known.forget(returned.topic)
		}
	}
	if len(errs) > 0 && o.channel.IsClosed() { // the exchange may be gone
		p.main.check()
	}
}

// errNoConfirm says that it is not known whether a queue has a message.
var errNoConfirm = fmt.Errorf("no confirm within %v", publishTimeout)

// A returnedError says that the server has no queue for a message.
type returnedError struct {
	topic string
	why   string
}

// Error names the queue.
func (e *returnedError) Error() string {
	return fmt.Sprintf("the server returned it (%s): no queue is bound to the exchange under the key %s", e.why, e.topic)
}
