package rabbitmq

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/broker/connection"
)

// maxUnconfirmed is the most messages that all calls together wait for.
const maxUnconfirmed = 1000

// A confirmChannel is a channel in confirm mode, with the messages that were sent on it
// and are not confirmed. The library's own list of confirms (NotifyPublish) is in the
// order of sending, so that one missing confirm delays all others.
type confirmChannel struct {
	b       *Broker
	conn    *serverConn
	channel *amqp.Channel
	window  chan struct{} // slots for messages that calls wait for
	returns <-chan amqp.Return
	why     func() error // waits for the reason why the channel was closed, and returns it

	mu     sync.Mutex
	sent   map[target][]*sent
	queues map[string]*queueConfirms // by topic
	latest time.Time                 // when the last confirm came
	newest time.Time                 // when the newest confirmed message was sent
}

// A queueConfirms is the state of the confirms of a topic's queue.
type queueConfirms struct {
	latest time.Time // when it last confirmed a message
	stuck  *sent     // last message that was abandoned because the queue confirmed nothing
}

// A target identifies a message as the server does when it returns one. Several messages
// may have the same target.
type target struct{ topic, id string }

// A sent is a message that was sent.
type sent struct {
	target
	at       time.Time // when it was sent
	confirm  *amqp.DeferredConfirmation
	returned *amqp.Return
}

// confirmed reports whether the server has confirmed, rejected or returned the message,
// or can't any more.
func (s *sent) confirmed() bool {
	select {
	case <-s.confirm.Done():
		return true
	default:
		return false
	}
}

// openConfirmChannel returns the channel of the current connection, and opens it if
// necessary.
func (b *Broker) openConfirmChannel(ctx context.Context) (*confirmChannel, error) {
	conn, err := b.out.Current()
	if err != nil {
		return nil, err
	}
	if c := b.channel.Load(); c.usable(conn) {
		return c, nil
	}
	err = await(ctx, b.begin("confirms", func() error {
		if b.channel.Load().usable(conn) {
			return nil
		}
		channel, err := conn.Channel()
		if err == nil {
			err = channel.Confirm(false)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", connection.ErrNotConnected, err)
		}
		b.channel.Store(newConfirmChannel(b, conn, channel))
		return nil
	}))
	return b.channel.Load(), err
}

// usable reports whether the channel is open and belongs to the connection.
func (c *confirmChannel) usable(conn *serverConn) bool {
	return c != nil && c.conn == conn && !c.channel.IsClosed()
}

func newConfirmChannel(b *Broker, conn *serverConn, channel *amqp.Channel) *confirmChannel {
	closed := channel.NotifyClose(make(chan *amqp.Error, 1))
	return &confirmChannel{
		b: b, conn: conn, channel: channel,
		window: make(chan struct{}, maxUnconfirmed),
		// The buffer has space for all that the server may return before a call reads it. The
		// library drops a returned message that it can't pass on for 5 s (notifyAll, amqp091-go
		// v1.16.0).
		returns: channel.NotifyReturn(make(chan amqp.Return, 4*maxUnconfirmed)),
		why: sync.OnceValue(func() error {
			if why := <-closed; why != nil {
				return why
			}
			return amqp.ErrClosed
		}),
		sent:   make(map[target][]*sent),
		queues: make(map[string]*queueConfirms),
	}
}

// maxProperties returns how many bytes of properties fit in a frame.
func (c *confirmChannel) maxProperties() int { return c.conn.Config.FrameSize - 64 }

func (c *confirmChannel) release() { <-c.window }

// send sends a message that has a slot in the window.
func (c *confirmChannel) send(ctx context.Context, m outgoing) (*sent, error) {
	if err := c.conn.network.writable(ctx); err != nil {
		c.release()
		return nil, fmt.Errorf("%w: %w", errNoConfirm, err)
	}
	s := &sent{target: target{m.topic, m.MessageId}, at: clock()}
	c.mu.Lock()
	c.sent[s.target] = append(c.sent[s.target], s)
	c.mu.Unlock()
	var err error
	s.confirm, err = c.channel.PublishWithDeferredConfirm(c.b.opt.Exchange, m.topic, true, false, m.Publishing)
	if err != nil {
		c.release()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.forget(s)
		return nil, c.ended(err)
	}
	return s, nil
}

// result returns the result of a confirmed message.
func (c *confirmChannel) result(s *sent) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readReturns() // a message is returned before it is confirmed
	c.forget(s)
	c.latest = clock()
	c.queue(s.topic).latest = c.latest
	if s.at.After(c.newest) {
		c.newest = s.at
	}
	switch {
	case s.returned != nil:
		return &returnedError{topic: s.topic, reason: s.returned.ReplyText}
	case s.confirm.Acked():
		return nil
	case c.channel.IsClosed():
		return c.ended(amqp.ErrClosed)
	}
	return errNack
}

// queue returns the state of the confirms of a topic's queue.
func (c *confirmChannel) queue(topic string) *queueConfirms {
	q, ok := c.queues[topic]
	if !ok {
		q = new(queueConfirms)
		c.queues[topic] = q
	}
	return q
}

// late reports whether the queue of a message has confirmed nothing for a while, though the
// server has confirmed messages that were sent later to other queues, and whether the
// server has confirmed nothing for confirmTimeout, and the message was sent before that.
func (c *confirmChannel) late(s *sent) (queueStuck, serverSilent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := clock()
	waited := now.Sub(s.at)
	queueStuck = !c.newest.Before(s.at) && waited >= quiet && now.Sub(c.queue(s.topic).latest) >= quiet
	return queueStuck, waited >= confirmTimeout && now.Sub(c.latest) >= confirmTimeout
}

// clock returns the time for measuring delays of confirms and retries.
func clock() time.Time {
	return time.Now() //nolint:forbidigo // it decides nothing about timers
}

// readReturns notes which messages the server has returned. If several messages have the
// same topic and id, all of them count as returned, since the server does not say which
// one it was.
func (c *confirmChannel) readReturns() {
	for {
		select {
		case r, ok := <-c.returns:
			if !ok {
				c.returns = nil
				continue
			}
			for _, s := range c.sent[target{r.RoutingKey, r.MessageId}] {
				s.returned = &r
			}
		default:
			return
		}
	}
}

func (c *confirmChannel) forget(s *sent) {
	same := slices.DeleteFunc(c.sent[s.target], func(other *sent) bool { return other == s })
	if c.sent[s.target] = same; len(same) == 0 {
		delete(c.sent, s.target)
	}
}

// ended returns why the channel takes no more messages.
func (c *confirmChannel) ended(err error) error {
	if c.channel.IsClosed() {
		err = c.why()
	}
	return fmt.Errorf("%w with RabbitMQ: %w", connection.ErrNotConnected, denied(err))
}

// abandon ends the wait of a call for a message, and returns its result. If the queue is
// stuck, no other message is sent to it until the confirm comes.
func (c *confirmChannel) abandon(s *sent, stuck bool) error {
	c.release()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(s)
	if stuck {
		c.queue(s.topic).stuck = s
	}
	if err := c.conn.takesMessages(); err != nil {
		return err
	}
	return errNoConfirm
}

// owes returns an error while the queue of a topic owes the confirm of a message that was
// abandoned because it was stuck.
func (c *confirmChannel) owes(topic string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.queue(topic).stuck; s != nil && !s.confirmed() {
		return fmt.Errorf("%w for earlier messages of the queue", errNoConfirm)
	}
	return nil
}
