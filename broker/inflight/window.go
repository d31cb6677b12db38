// Package inflight is what a subscription has in flight, for drivers whose
// server delivers a message once and then waits: order per key, offers, nacked
// messages that come back after a delay, a bound of memory, and an orderly end.
// Nothing of it knows a server.
package inflight

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
)

// A Delivery is a message that a driver took from its server.
type Delivery interface {
	Topic() string             // where it came from
	Header(name string) string // the value of a header, or ""
	Body() []byte              // never changed
	Bytes() int                // about how much memory it takes

	// Message returns a new message for handlers, without [broker.MetaDelivery].
	// It is called once for each time that the message is delivered.
	Message() *message.Message

	// Stale reports whether the server has given the message to others. It is not
	// delivered then.
	Stale() bool

	// Ack tells the server that the message is handled. It is called from any
	// goroutine, once, perhaps when the connection is long gone.
	Ack()

	// Return tells the server to give the message to others, at once. It is called
	// instead of Ack, for a message that no handler has, when the intake is over.
	Return()
}

// Options tune a [Window]. The zero value is ready to use.
type Options struct {
	Take     func(envelope.Offer) bool // offered each message first, see [broker.Offerer]; default nobody
	Messages int                       // in flight at most; default 4096
	Bytes    int                       // that messages in flight may take, about; default 64 MiB
}

// A Window is what one subscription has in flight: messages that wait for those
// before them, that handlers have, and that wait for their next delivery.
type Window struct {
	opt    Options
	ctx    context.Context // of the subscription
	cancel context.CancelFunc
	out    chan *message.Message
	over   chan struct{} // closed when nobody waits for acks any more
	lanes  broker.Lanes
	offers sync.WaitGroup // taken, and neither acked nor passed on

	gate   sync.RWMutex // held for reading by whoever sends to out or adds to lanes
	closed bool

	mu       sync.Mutex
	messages int
	bytes    int
	room     chan struct{} // closed when there is room again; nil while there is
}

// New returns a Window. Its messages have a context below ctx, and when ctx is
// done no more are delivered; the caller then calls [Window.Close].
func New(ctx context.Context, opt Options) *Window {
	if opt.Messages <= 0 {
		opt.Messages = 4096
	}
	if opt.Bytes <= 0 {
		opt.Bytes = 64 << 20
	}
	w := &Window{opt: opt, out: make(chan *message.Message), over: make(chan struct{})}
	w.ctx, w.cancel = context.WithCancel(ctx)
	return w
}

// Messages is where messages are delivered. [Window.Close] closes it.
func (w *Window) Messages() <-chan *message.Message { return w.out }

// Add takes over a message that was delivered so many times, this one included.
// It waits while the window is full, whatever the size of d. If the intake is
// over it returns d and reports false.
func (w *Window) Add(d Delivery, deliveries int) bool {
	if !w.awaitRoom() {
		d.Return()
		return false
	}
	w.count(+1, d.Bytes())
	f := &flying{Delivery: d, window: w, number: deliveries}
	return f.taken() || w.line(f)
}

// Close ends the intake: it closes Messages and returns what no handler has. The
// rest can still be acked.
func (w *Window) Close() {
	w.cancel()
	w.gate.Lock()
	defer w.gate.Unlock()
	if !w.closed {
		w.closed = true
		close(w.out)
	}
}

// Wait waits until nothing is in flight, or until stop is closed; acks that come
// later mean nothing. It is called once, after Close.
func (w *Window) Wait(stop <-chan struct{}) {
	idle := make(chan struct{})
	go func() {
		defer close(idle)
		w.offers.Wait() // they may be passed on
		w.lanes.Wait()
	}()
	select {
	case <-idle:
	case <-stop:
	}
	close(w.over)
	w.lanes.Wait() // what was acked before is acked at the server too
}

// line puts a message into the lane of its key. If the intake is over it returns
// the message and reports false.
func (w *Window) line(f *flying) bool {
	w.gate.RLock()
	defer w.gate.RUnlock()
	if w.closed || w.ctx.Err() != nil {
		f.giveBack()
		return false
	}
	msg := f.Message()
	w.lanes.Go(broker.Key(msg), func() { w.deliver(f, msg) })
	return true
}

// deliver hands a message to whoever reads, and returns when the next one of its
// key may follow.
func (w *Window) deliver(f *flying, msg *message.Message) {
	msg.Metadata[broker.MetaDelivery] = strconv.Itoa(f.number)
	c := NewContext(w.ctx)
	msg.SetContext(envelope.WithPlace(c, c.Leave))
	if f.Stale() || !w.send(msg) {
		c.End()
		f.giveBack()
		return
	}
	select {
	case <-msg.Acked():
	case <-msg.Nacked():
	case <-w.over:
	case <-c.Left():
		w.lanes.Go("", func() {
			select {
			case <-msg.Acked():
			case <-msg.Nacked():
			case <-w.over:
			}
			w.settle(f, msg, c)
		})
		return
	}
	w.settle(f, msg, c)
}

// settle does what the handler said. If it says nothing until the window is over
// the message stays with the server as it is.
func (w *Window) settle(f *flying, msg *message.Message, c *Context) {
	c.End()
	select {
	case <-msg.Acked():
		f.Delivery.Ack()
		w.count(-1, -f.Bytes())
		return
	default:
	}
	select {
	case <-msg.Nacked():
		w.lanes.Go("", func() { w.again(f) })
	default:
	}
}

// again delivers a nacked message again after its delay, behind those of its key
// that came meanwhile.
func (w *Window) again(f *flying) {
	t := time.NewTimer(broker.RedeliveryDelay(f.number))
	defer t.Stop()
	select {
	case <-t.C:
	case <-w.ctx.Done():
	}
	f.number++
	w.line(f)
}

// send reports whether somebody took the message before the intake ended.
func (w *Window) send(msg *message.Message) bool {
	w.gate.RLock()
	defer w.gate.RUnlock()
	if w.closed || w.ctx.Err() != nil {
		return false
	}
	select {
	case w.out <- msg:
		return true
	case <-w.ctx.Done():
		return false
	}
}

// awaitRoom waits until the window is not full. It returns false if the intake
// ended first.
func (w *Window) awaitRoom() bool {
	for w.ctx.Err() == nil {
		w.mu.Lock()
		full := w.messages >= w.opt.Messages || w.bytes >= w.opt.Bytes
		if full && w.room == nil {
			w.room = make(chan struct{})
		}
		room := w.room
		w.mu.Unlock()
		if !full {
			return true
		}
		select {
		case <-room:
		case <-w.ctx.Done():
		}
	}
	return false
}

// count notes that more is in flight, or less.
func (w *Window) count(messages, bytes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.messages += messages
	w.bytes += bytes
	if w.room != nil && w.messages < w.opt.Messages && w.bytes < w.opt.Bytes {
		close(w.room)
		w.room = nil
	}
}

// A flying is a delivery in the window. It is an [envelope.Offer].
type flying struct {
	Delivery
	window *Window
	number int // how often it was delivered, from 1
}

// taken offers the message, and reports whether somebody took it.
func (f *flying) taken() bool {
	w := f.window
	if w.opt.Take == nil || !w.offering() {
		return false
	}
	if w.opt.Take(f) {
		return true
	}
	w.offers.Done()
	return false
}

// offering counts one more offer. It returns false if the intake is over.
func (w *Window) offering() bool {
	w.gate.RLock()
	defer w.gate.RUnlock()
	if !w.closed {
		w.offers.Add(1)
	}
	return !w.closed
}

// Deliveries returns how often the message was delivered.
func (f *flying) Deliveries() int { return f.number }

// Ack says that an offer is done.
func (f *flying) Ack() {
	defer f.window.offers.Done()
	f.Delivery.Ack()
	f.window.count(-1, -f.Bytes())
}

// Pass delivers an offer as a message, or returns it if the intake is over.
func (f *flying) Pass() {
	defer f.window.offers.Done()
	f.window.line(f)
}

// giveBack returns what no handler has.
func (f *flying) giveBack() {
	if !f.Stale() {
		f.Return()
	}
	f.window.count(-1, -f.Bytes())
}

var _ envelope.Offer = (*flying)(nil)
