package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"
)

// maxUnconfirmed is how many messages are on their way to the server at once, of
// all calls together.
const maxUnconfirmed = 1000

// outlets are the one outlet there is, and its successors.
type outlets struct {
	slot chan struct{} // holds one while an outlet is opened
	now  atomic.Pointer[outlet]
}

// of returns the outlet of a connection, nil if it has to be opened.
func (all *outlets) of(conn *connection) *outlet {
	if o := all.now.Load(); o != nil && o.conn == conn && !o.channel.IsClosed() {
		return o
	}
	return nil
}

// openOutlet returns the outlet of the present connection.
func (b *Broker) openOutlet(ctx context.Context) (*outlet, error) {
	conn, err := b.out.current()
	if err != nil {
		return nil, err
	}
	if o := b.outlet.of(conn); o != nil {
		return o, nil
	}
	var opened *outlet
	err = b.alone(ctx, b.outlet.slot, func() error {
		if opened = b.outlet.of(conn); opened != nil {
			return nil
		}
		channel, err := conn.Channel()
		if err != nil {
			return err
		}
		o := newOutlet(conn, channel, b.opt.Exchange)
		b.asks.Add(1)
		go func() {
			defer b.asks.Done()
			o.listen()
		}()
		if err := channel.Confirm(false); err != nil {
			return err
		}
		b.outlet.now.Store(o)
		opened = o
		return nil
	})
	if err != nil {
		return nil, err
	}
	return opened, nil
}

// An outlet is a channel in confirm mode.
type outlet struct {
	conn      *connection
	channel   *amqp.Channel
	exchange  string
	maxHeader int           // bytes of properties that fit in a frame
	room      chan struct{} // holds one for each message on its way
	over      chan struct{} // closed when the channel has ended and nothing is on its way
	returns   <-chan amqp.Return
	confirms  <-chan amqp.Confirmation
	closed    <-chan *amqp.Error

	sending sync.Mutex // held while a message is written: tags follow the order of writing

	mu    sync.Mutex
	tag   uint64 // of the last message
	onWay map[uint64]onWay
	ended error // why nothing more gets a confirm
}

// A sending is a message for the wire.
type sending struct {
	topic string
	amqp.Publishing
}

// bytes returns about how large the properties are.
func (s sending) bytes() int {
	n := 128 + len(s.CorrelationId) + len(s.MessageId) + len(s.Type)
	for name, value := range s.Headers {
		n += len(name) + len(value.(string)) + 8
	}
	return n
}

// onWay is a message without a confirm.
type onWay struct {
	call  *call
	topic string
	id    string
	err   error // it was returned
}

func newOutlet(conn *connection, channel *amqp.Channel, exchange string) *outlet {
	o := &outlet{
		conn: conn, channel: channel, exchange: exchange,
		maxHeader: conn.Config.FrameSize - 64,
		room:      make(chan struct{}, maxUnconfirmed),
		over:      make(chan struct{}),
		onWay:     make(map[uint64]onWay),
	}
	// There is room for all that the server may say: the library drops what waits
	// for us for 5 s (notifyAll, amqp091-go v1.16.0), as when the machine sleeps.
	o.returns = channel.NotifyReturn(make(chan amqp.Return, maxUnconfirmed))
	o.confirms = channel.NotifyPublish(make(chan amqp.Confirmation, maxUnconfirmed))
	o.closed = channel.NotifyClose(make(chan *amqp.Error, 1))
	return o
}

// listen takes what the server says of messages until the channel ends.
func (o *outlet) listen() {
	defer close(o.over)
	returns, confirms := o.returns, o.confirms
	for returns != nil || confirms != nil {
		select {
		case r, ok := <-returns:
			if !ok {
				returns = nil
				continue
			}
			o.returned(r)
		case c, ok := <-confirms:
			if !ok {
				confirms = nil
				continue
			}
			for range len(returns) { // a message is returned before it is confirmed
				o.returned(<-returns)
			}
			o.confirmed(c)
		}
	}
	why := ErrNotConnected
	if err := <-o.closed; err != nil {
		why = err
		if o.conn.IsClosed() {
			why = fmt.Errorf("%w: %w", ErrNotConnected, err)
		}
	}
	o.end(why)
}

// returned notes a message that no queue takes. The server says which by what it
// was published with; if two have the same id both failed.
func (o *outlet) returned(r amqp.Return) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for tag, m := range o.onWay {
		if m.topic == r.RoutingKey && m.id == r.MessageId {
			m.err = &returnedError{topic: r.RoutingKey, why: r.ReplyText}
			o.onWay[tag] = m
		}
	}
}

// errNack is what the server answers if a queue did not take a message.
var errNack = errors.New("the server did not take it (basic.nack): a queue is full, or the server failed")

func (o *outlet) confirmed(c amqp.Confirmation) {
	o.mu.Lock()
	m, ok := o.onWay[c.DeliveryTag]
	delete(o.onWay, c.DeliveryTag)
	o.mu.Unlock()
	if !ok {
		return
	}
	<-o.room
	if !c.Ack && m.err == nil {
		m.err = errNack
	}
	m.call.answer(1, m.err)
}

// end gives up what is on its way.
func (o *outlet) end(why error) {
	o.mu.Lock()
	all := o.onWay
	o.onWay, o.ended = nil, why
	o.mu.Unlock()
	for _, m := range all {
		<-o.room
		m.call.answer(1, why)
	}
}

// send writes messages one behind the other. After the first that fails it
// writes no more.
func (o *outlet) send(ctx context.Context, c *call, messages []sending) {
	for i, m := range messages {
		err := c.failure()
		if err == nil {
			err = o.write(ctx, c, m)
		} else {
			err = errors.New("not sent after that")
		}
		if err != nil {
			c.answer(len(messages)-i, err)
			return
		}
	}
}

// write writes a message. Unless it returns an error the call gets an answer.
func (o *outlet) write(ctx context.Context, c *call, m sending) error {
	select {
	case o.room <- struct{}{}:
	case <-o.over:
		return o.why()
	case <-ctx.Done():
		return errNoConfirm
	}
	o.sending.Lock()
	defer o.sending.Unlock()
	if !o.expect(c, m) {
		<-o.room
		return o.why()
	}
	// An error means that the channel is dead, which end learns too.
	_, _ = o.channel.PublishWithDeferredConfirm(o.exchange, m.topic, true, false, m.Publishing)
	return nil
}

// expect notes a message that is going to be written. It returns false if it
// would get no confirm.
func (o *outlet) expect(c *call, m sending) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended != nil {
		return false
	}
	o.tag++
	o.onWay[o.tag] = onWay{call: c, topic: m.topic, id: m.MessageId}
	return true
}

func (o *outlet) why() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ended
}
