package rabbitmq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/broker"
)

// How long a call waits for a confirm. A queue without a majority of its nodes never
// confirms, and must not delay the results of other queues. The confirms of a slow server
// come in about the order of sending.
const (
	quiet          = 3 * time.Second  // for a queue that confirms nothing, while others do
	confirmTimeout = 10 * time.Second // for a server that confirms nothing
)

// A publisher publishes to the exchange. See [broker.Publisher] for its contract.
//
// If the confirm of a message does not come in time the message has failed, and may be
// published all the same. If its queue is stuck, no other message is sent to that queue
// until the confirm comes.
type publisher struct{ *Broker }

// An outgoingMessage is a message for the server.
type outgoingMessage struct {
	topic string
	amqp.Publishing
	properties int // about how many bytes its properties take
	index      int // index of its result
}

// Publish publishes messages. A message waits until the queue of its topic is declared,
// and no other message waits with it. The first message of a topic decides that for all
// its messages in the call: if the queue is declared meanwhile, later messages must not
// overtake earlier ones.
func (p publisher) Publish(ctx context.Context, messages ...broker.Message) []error {
	declaring, cancel := context.WithTimeout(ctx, declareTimeout)
	defer cancel()
	declared := make(map[string]func() error) // waits for the declaration; nil if there is none
	results := make([]error, len(messages))
	ready, waiting := make([]outgoingMessage, 0, len(messages)), []outgoingMessage(nil)
	for i, m := range messages {
		out, err := marshal(m.Topic, m.Message)
		if err != nil {
			results[i] = err
			continue
		}
		if _, ok := declared[m.Topic]; !ok {
			declared[m.Topic] = p.declareTopic(declaring, m.Topic)
		}
		if out.index = i; declared[m.Topic] != nil {
			waiting = append(waiting, out)
		} else {
			ready = append(ready, out)
		}
	}
	p.send(ctx, ready, results)
	waiting = slices.DeleteFunc(waiting, func(m outgoingMessage) bool {
		results[m.index] = declared[m.topic]()
		return results[m.index] != nil
	})
	p.send(ctx, waiting, results)
	return results
}

// maxUnconfirmed is the most messages of a call that are unconfirmed.
const maxUnconfirmed = 1000

// send sends messages, and sets their results.
func (b *Broker) send(ctx context.Context, batch []outgoingMessage, results []error) {
	if len(batch) == 0 {
		return
	}
	channel, err := b.openConfirmChannel(ctx)
	c := call{ctx: ctx, confirms: channel, results: results}
	for _, m := range batch {
		for len(c.pending) == maxUnconfirmed {
			c.settle()
		}
		if results[m.index] = err; err == nil {
			c.write(m)
		}
	}
	for len(c.pending) > 0 {
		c.settle()
	}
	for _, m := range batch {
		if returned, ok := errors.AsType[*returnedError](results[m.index]); ok {
			b.declaredTopics.Delete(returned.topic)
		}
	}
	if channel != nil && channel.channel.IsClosed() { // the exchange may be gone
		b.main.Recheck()
	}
}

// A call is one call of Publish.
type call struct {
	ctx      context.Context // context of the caller, who waits
	confirms *confirmChannel
	results  []error
	pending  []*unconfirmedMessage // unconfirmed messages in the order of sending
}

// write sends a message. If it can't be sent, its result is the reason.
func (c *call) write(m outgoingMessage) {
	s, err := c.confirms.send(c.ctx, m)
	if err != nil {
		c.results[m.index] = err
		return
	}
	c.pending = append(c.pending, s)
}

// settle waits for the first confirm, and sets its result. If it does not come for a
// while, settle also sets the results of all messages that are confirmed or abandoned.
// The call abandons the messages to a queue that is stuck, or all if the server is silent
// or blocks the connection, or if the context of the call ends.
func (c *call) settle() {
	first := c.pending[0]
	late := time.NewTimer(quiet / 2)
	defer late.Stop()
	select {
	case <-first.confirm.Done():
		c.results[first.index] = c.confirms.result(first)
		c.confirms.settled(first)
		c.pending = c.pending[1:]
		return
	case <-late.C:
	case <-c.ctx.Done():
	}
	blocked := c.confirms.conn.takesMessages()
	c.pending = slices.DeleteFunc(c.pending, func(s *unconfirmedMessage) bool {
		switch {
		case s.confirmed():
			c.results[s.index] = c.confirms.result(s)
		case c.ctx.Err() != nil, blocked != nil, c.confirms.late(s):
			c.results[s.index] = cmp.Or(blocked, errNoConfirm)
		default:
			return false
		}
		c.confirms.settled(s)
		return true
	})
}

// errNoConfirm says that it is not known whether a queue has a message.
var errNoConfirm = errors.New("no confirm in time")

// errNack is the server's answer if a queue did not take a message.
var errNack = errors.New("the server did not take it (basic.nack): a queue is full, or the server failed")

// A returnedError says that the server has no queue for a message.
type returnedError struct {
	topic  string
	reason string
}

// Error names the queue.
func (e *returnedError) Error() string {
	return fmt.Sprintf("the server returned it (%s): no queue is bound to the exchange under the key %s", e.reason, e.topic)
}
