package rabbitmq

import (
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

// An outgoing is a message for the server.
type outgoing struct {
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
	ready, waiting := make([]outgoing, 0, len(messages)), []outgoing(nil)
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
	waiting = slices.DeleteFunc(waiting, func(m outgoing) bool {
		results[m.index] = declared[m.topic]()
		return results[m.index] != nil
	})
	p.send(ctx, waiting, results)
	return results
}

// send sends messages, and sets their results.
func (b *Broker) send(ctx context.Context, batch []outgoing, results []error) {
	if len(batch) == 0 {
		return
	}
	channel, err := b.openConfirmChannel(ctx)
	c := call{ctx: ctx, confirms: channel, results: results}
	for _, m := range batch {
		if err != nil {
			results[m.index] = err
		} else {
			results[m.index] = c.write(m)
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
	pending  []unconfirmed // unconfirmed messages in the order of sending
}

// An unconfirmed is a message that was sent and is not confirmed.
type unconfirmed struct {
	*sent
	index int // index of its result
}

// write sends a message, whose result is set when its confirm comes. Else it returns why
// the message was not sent.
func (c *call) write(m outgoing) error {
	if m.properties > c.confirms.maxProperties() {
		return fmt.Errorf("%w: properties larger than the %d bytes that the server takes", broker.ErrRefused, c.confirms.maxProperties())
	}
	if err := c.confirms.owes(m.topic); err != nil {
		return err
	}
	if err := c.acquire(); err != nil {
		return err
	}
	s, err := c.confirms.send(c.ctx, m)
	if err != nil {
		return err
	}
	c.pending = append(c.pending, unconfirmed{s, m.index})
	return nil
}

// acquire takes a slot for a message that this call waits for, among those of all calls.
func (c *call) acquire() error {
	for len(c.pending) > 0 {
		select {
		case c.confirms.window <- struct{}{}:
			return nil
		default:
			c.settle()
		}
	}
	select {
	case c.confirms.window <- struct{}{}: // another call released it
		return nil
	case <-c.ctx.Done():
		return errNoConfirm
	}
}

// settle waits for a confirm, and removes the messages that have a result from pending.
// These are confirmed messages, and messages that the call abandons: those to a queue
// that is stuck, or all if the server is silent or blocks the connection, or if the
// context of the call ends.
func (c *call) settle() {
	late := time.NewTimer(quiet / 2)
	defer late.Stop()
	select {
	case <-c.pending[0].confirm.Done():
		for len(c.pending) > 0 && c.finish(c.pending[0]) {
			c.pending = c.pending[1:]
		}
		return
	case <-late.C:
	case <-c.ctx.Done():
	}
	c.pending = slices.DeleteFunc(c.pending, c.finish)
	stuck, all := make(map[string]bool), c.ctx.Err() != nil || c.confirms.conn.takesMessages() != nil
	c.pending = slices.DeleteFunc(c.pending, func(u unconfirmed) bool {
		queueStuck, serverSilent := c.confirms.late(u.sent)
		stuck[u.topic] = stuck[u.topic] || queueStuck // oldest of a queue first
		over := all || stuck[u.topic] || serverSilent
		if over {
			c.results[u.index] = c.confirms.abandon(u.sent, stuck[u.topic])
		}
		return over
	})
}

// finish sets the result of a message if it is confirmed.
func (c *call) finish(u unconfirmed) bool {
	if !u.confirmed() {
		return false
	}
	c.results[u.index] = c.confirms.result(u.sent)
	c.confirms.release()
	return true
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
