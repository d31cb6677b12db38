package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/connection"
)

// maxReturned is the most returned messages that wait until a call reads them. The library
// drops a message that it can't pass on for 5 s (notifyAll, amqp091-go v1.16.0).
const maxReturned = 4 * maxUnconfirmed

// A confirmChannel is a channel in confirm mode. The library's own list of confirms
// (NotifyPublish) is in the order of sending, so that one missing confirm delays all
// others.
type confirmChannel struct {
	b       *Broker
	conn    *serverConn
	channel *amqp.Channel
	returns <-chan amqp.Return
	why     func() error // waits for the reason why the channel was closed, and returns it

	mu     sync.Mutex
	queues map[string]*queueConfirms // by topic; of those with messages that calls wait for, or with an abandoned one
	newest time.Time                 // when the newest confirmed message was sent
}

// A queueConfirms is the state of the confirms of a topic's queue.
type queueConfirms struct {
	latest   time.Time           // when it last confirmed a message
	stuck    *unconfirmedMessage // last message that was abandoned because the queue confirmed nothing
	returned uint64              // messages up to this number count as returned
	reason   string              // why the last one was returned
	awaited  int                 // messages that calls wait for
}

// owes reports whether the queue owes the confirm of a message that was abandoned.
func (q *queueConfirms) owes() bool { return q.stuck != nil && !q.stuck.confirmed() }

// An unconfirmedMessage is a message that was sent and not confirmed yet.
type unconfirmedMessage struct {
	topic   string
	index   int       // index of its result
	at      time.Time // when it was sent
	confirm *amqp.DeferredConfirmation
}

// confirmed reports whether the server has confirmed, rejected or returned the message,
// or can't any more.
func (s *unconfirmedMessage) confirmed() bool {
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
		returns: channel.NotifyReturn(make(chan amqp.Return, maxReturned)),
		why: sync.OnceValue(func() error {
			if why := <-closed; why != nil {
				return why
			}
			return amqp.ErrClosed
		}),
		queues: make(map[string]*queueConfirms),
	}
}

// send sends a message. It sends none to a queue that owes the confirm of a message that
// was abandoned.
func (c *confirmChannel) send(ctx context.Context, m outgoingMessage) (*unconfirmedMessage, error) {
	if limit := c.conn.maxBody.Load(); limit > 0 && int64(len(m.Body)) > limit {
		return nil, fmt.Errorf("%w: body of %d bytes, the server takes %d", broker.ErrRefused, len(m.Body), limit)
	}
	if limit := c.conn.Config.FrameSize - 64; m.properties > limit {
		return nil, fmt.Errorf("%w: properties larger than the %d bytes that the server takes", broker.ErrRefused, limit)
	}
	err := c.conn.network.writable(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoConfirm, err)
	}
	s := &unconfirmedMessage{topic: m.topic, index: m.index, at: clock()}
	if !c.await(s) {
		return nil, fmt.Errorf("%w for earlier messages of the queue", errNoConfirm)
	}
	s.confirm, err = c.channel.PublishWithDeferredConfirm(c.b.exchanges(m.topic)[0], m.topic, true, false, m.Publishing)
	if err != nil {
		c.settled(s)
		return nil, c.ended(err)
	}
	return s, nil
}

// result returns the result of a confirmed message.
func (c *confirmChannel) result(s *unconfirmedMessage) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readReturns() // a message is returned before it is confirmed
	q := c.queues[s.topic]
	q.latest = clock()
	if s.at.After(c.newest) {
		c.newest = s.at
	}
	switch {
	case s.confirm.DeliveryTag <= q.returned:
		return &returnedError{topic: s.topic, reason: q.reason}
	case s.confirm.Acked():
		return nil
	case c.channel.IsClosed():
		return c.ended(amqp.ErrClosed)
	}
	return errNack
}

// await notes that a call waits for a message from now on, before it is sent. It returns false
// if the queue owes a confirm.
func (c *confirmChannel) await(s *unconfirmedMessage) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[s.topic]
	if q == nil {
		q = new(queueConfirms)
		c.queues[s.topic] = q
	}
	if q.owes() {
		return false
	}
	q.awaited++
	return true
}

// settled notes that a call no longer waits for a message. With the last one it forgets the
// queue, unless that owes a confirm: tenants may name any number of queues.
func (c *confirmChannel) settled(s *unconfirmedMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[s.topic]
	if q.awaited--; q.awaited == 0 && !q.owes() {
		delete(c.queues, s.topic)
	}
}

// late reports whether to abandon a message, since its queue has confirmed nothing
// for a while. That while is short if the server has confirmed messages that were sent
// later to other queues.
func (c *confirmChannel) late(s *unconfirmedMessage) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	q, now, longest := c.queues[s.topic], clock(), confirmTimeout
	if c.newest.After(s.at) {
		longest = quiet
	}
	if !q.owes() && now.Sub(s.at) >= longest && now.Sub(q.latest) >= longest {
		q.stuck = s
	}
	return q.owes()
}

// clock returns the time for measuring delays of confirms and retries.
func clock() time.Time {
	return time.Now() //nolint:forbidigo // it decides nothing about timers
}

// readReturns notes which messages the server has returned. The server does not say their
// numbers. When it returns one, all messages of the topic that were sent so far count as
// returned, since they went to the same missing queue.
func (c *confirmChannel) readReturns() {
	for {
		select {
		case r, ok := <-c.returns:
			if !ok {
				c.returns = nil
				continue
			}
			if q := c.queues[r.RoutingKey]; q != nil { // some call waits
				q.returned, q.reason = c.channel.GetNextPublishSeqNo()-1, r.ReplyText
			}
		default:
			return
		}
	}
}

// ended returns why the channel takes no more messages. The server closes it when a message
// is larger than max_message_size, and tells that limit only then.
func (c *confirmChannel) ended(err error) error {
	if c.channel.IsClosed() {
		err = c.why()
	}
	if e, ok := errors.AsType[*amqp.Error](err); ok {
		_, limit, _ := strings.Cut(e.Reason, " max size ")
		if n, err := strconv.ParseInt(limit, 10, 64); err == nil {
			c.conn.maxBody.Store(n)
		}
	}
	return fmt.Errorf("%w with RabbitMQ: %w", connection.ErrNotConnected, denied(err))
}
