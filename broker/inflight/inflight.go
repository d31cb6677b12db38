// Package inflight is the part of a subscription that is the same for every
// broker, between a driver and Watermill's Subscriber: a bound of messages and
// bytes in flight, delivery counts, acks, retries after a delay, and an orderly
// end. It knows no server and no network.
//
//	driver ──Add──► Window ──► Messages ──► handler ──ack──► Delivery.Ack
//	  ▲               │  ▲                     │ nack
//	  │               │  └──after its delay── held, unacked
//	  └──Return───────┘ at the end of the intake
//
// Messages are delivered in no order, and none waits for another one. A nacked message waits
// for its retry only in the window. It keeps its in-flight slot: while nacked
// messages fill the window, the intake waits.
//
// A driver has one [Term], from the start to the end of its Run, and one
// [Subscriptions] for each subscriber, which counts the subscriptions that end with it.
package inflight

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/message"
	"golang.org/x/sync/semaphore"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/internal/option"
	"github.com/event-service-agent/timer-service/internal/pause"
)

// A Delivery is a message that a driver received from its server. At most one of
// Ack and Return is called. They are called from any goroutine, perhaps after the
// connection was lost.
type Delivery interface {
	Bytes() int // about how many bytes of memory it takes; always the same

	// Message returns a new message for handlers, without [broker.MetaDelivery].
	// It is called once for each time that the message is delivered.
	Message() *message.Message

	// Stale reports whether the server has given the message to another
	// subscription. A stale message is neither delivered nor returned.
	Stale() bool

	// Ack tells the server that the message is handled.
	Ack()

	// Return gives the message back. The server delivers it to another subscription at once.
	// The window calls it if the intake ended before a handler got the message, or while the
	// message waited for its retry.
	Return()
}

// Options tune a [Window]. The zero value is ready to use.
type Options struct {
	Messages int // most messages in flight; default 4096
	Bytes    int // most bytes of messages in flight; a larger message is in flight alone; default 64 MiB

	// Hold is how long the server leaves a nacked message with the window. The window returns
	// the message after its delay, or after Hold if that is shorter, and the server delivers it
	// again. With 0 the window itself delivers the message again after its delay.
	Hold time.Duration

	// Later has the server deliver a message again after a delay that its handler has named
	// before the nack, by Watermill's package delay. The window does not hold it. With nil such
	// a message is as any other that is nacked.
	Later func(d Delivery, after time.Duration)
}

// A Window has the messages that one subscription has in flight. Make it with
// [Subscriptions.Open].
type Window struct {
	of      *Subscriptions
	opt     Options
	ctx     context.Context // ends with the intake
	cancel  context.CancelFunc
	out     chan *message.Message // it is never full, since each message in it has a slot
	slots   *semaphore.Weighted   // a slot for each message in flight
	bytes   *semaphore.Weighted   // bytes of the messages in flight
	expired chan struct{}         // closed when acks have no effect any more
	work    sync.WaitGroup        // goroutines that settle or hold messages

	mu       sync.Mutex
	closed   bool
	flights  []*flight  // messages in flight, the oldest first
	settling bool       // whether settle runs
	left     []Delivery // messages that handlers still had when the window expired
}

// A flight is a message in flight. It is, or was, in [Window.Messages].
type flight struct {
	delivery   Delivery
	end        context.CancelFunc // ends the context of the message
	msg        *message.Message
	deliveries int
	over       bool // it was acked or nacked, or the window has expired
}

// Open returns the window of a new subscription. The context of each message is derived
// from ctx. The intake ends with ctx, with [Subscriptions.Close] and with the term; then no
// more are delivered, and the function of [Window.Run] calls [Window.Close]. Open returns
// [ErrClosed] if the subscriber is closed or the term has ended.
func (s *Subscriptions) Open(ctx context.Context, opt Options) (*Window, error) {
	if !s.join() {
		return nil, ErrClosed
	}
	opt.Messages = option.Positive(opt.Messages, 4096)
	opt.Bytes = option.Positive(opt.Bytes, 64<<20)
	w := &Window{
		of:      s,
		opt:     opt,
		out:     make(chan *message.Message, opt.Messages),
		slots:   semaphore.NewWeighted(int64(opt.Messages)),
		bytes:   semaphore.NewWeighted(int64(opt.Bytes)),
		expired: make(chan struct{}),
	}
	w.ctx, w.cancel = pause.WhileBoth(ctx, s.ctx)
	return w, nil
}

// Run calls run in a goroutine, with a context that ends with the intake. It is called once
// for each window, and run closes and drains the window. The end of the term waits for it.
func (w *Window) Run(run func(intake context.Context)) {
	go func() {
		defer w.of.term.Done()
		run(w.ctx)
	}()
}

// Messages returns the channel of the messages, which [Window.Close] closes.
func (w *Window) Messages() <-chan *message.Message { return w.out }

// Add delivers a message. Deliveries is how often it has been delivered, this time
// included. Add waits while the window is full. It returns false if the message was not
// delivered: either it is stale, or the intake ended first, and the message was returned to
// the server.
func (w *Window) Add(d Delivery, deliveries int) bool {
	if w.acquire(d) {
		if w.deliver(d, deliveries) {
			return true
		}
		w.release(d)
	}
	giveBack(d)
	return false
}

// giveBack returns a message to the server, unless it is stale.
func giveBack(d Delivery) {
	if !d.Stale() {
		d.Return()
	}
}

// Close ends the intake: it closes Messages, and nacks the messages in it, so that they return to
// the server. Messages that a handler has can still be acked. A second call does nothing.
func (w *Window) Close() {
	w.cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.closed = true
	close(w.out)
	defer w.of.open.Done()
	for msg := range w.out {
		msg.Nack()
	}
}

// Drain waits, after Close, until nothing is in flight. A message can be acked for a time
// after the subscriber was closed, and for another time after the end of the term, but only
// until gone is closed, since the connection is lost then; gone may be nil. Messages that were
// acked before are acked at the server when Drain returns; a later ack or nack has no effect.
// Drain returns the messages that handlers still have. It is called once.
func (w *Window) Drain(afterClose, afterTerm time.Duration, gone <-chan struct{}) (left []Delivery) {
	closing, stopClosing := pause.Outlive(w.of.ctx, 0, afterClose)
	defer stopClosing()
	ending, stopEnding := pause.Outlive(w.of.term.ctx, 0, afterTerm)
	defer stopEnding()
	idle := make(chan struct{})
	go func() {
		defer close(idle)
		w.work.Wait()
	}()
	select {
	case <-idle:
	case <-closing.Done():
	case <-ending.Done():
	case <-gone:
	}
	close(w.expired)
	<-idle
	return w.left
}

// Settled returns a function that reports whether all that is in flight when Settled
// is called was acked or nacked. The function is for one goroutine.
func (w *Window) Settled() func() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	open := slices.Clone(w.flights)
	return func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		open = slices.DeleteFunc(open, func(f *flight) bool { return f.over })
		return len(open) == 0
	}
}

// deliver queues a message for a handler. It returns false if the intake ended
// first, or if the message is stale.
func (w *Window) deliver(d Delivery, deliveries int) bool {
	if d.Stale() {
		return false
	}
	msg := d.Message()
	msg.Metadata[broker.MetaDelivery] = strconv.Itoa(deliveries)
	delete(msg.Metadata, delay.DelayedForKey) // which is its handler's to set
	ctx, end := context.WithCancel(w.ctx)
	msg.SetContext(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil {
		end()
		return false
	}
	w.out <- msg
	w.flights = append(w.flights, &flight{delivery: d, end: end, msg: msg, deliveries: deliveries})
	if !w.settling {
		w.settling = true
		w.work.Go(w.settle)
	}
	return true
}

// settleInterval is how late an ack or nack may be noticed while an older message is at work.
const settleInterval = 25 * time.Millisecond

// settle acts on acks and nacks until nothing is in flight. It is one goroutine for all
// messages, since many are acked at once, after a commit that they share. With a goroutine for
// each the service accepted a tenth less, and took a tenth more CPU (timer-bench compare,
// SQLite and the embedded NATS server, 2026-11).
func (w *Window) settle() {
	all := false
	for {
		finished, oldest := w.over(all)
		for _, f := range finished {
			w.finish(f)
		}
		if oldest == nil {
			return
		}
		all = false
		select {
		case <-oldest.Acked():
		case <-oldest.Nacked():
		case <-w.expired: // then w.over returns all messages
		case <-time.After(settleInterval):
			all = true
		}
	}
}

// over returns the flights that were acked or nacked, and all flights once the window has
// expired. Unless all are wanted, it stops at the oldest message that is at work. It returns
// that message, too, or nil if there is none.
func (w *Window) over(all bool) (finished []*flight, oldest *message.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := 0 // index of the oldest flight that is at work
	for ; first < len(w.flights) && w.isOver(w.flights[first]); first++ {
	}
	finished, w.flights = w.flights[:first:first], w.flights[first:]
	if all {
		w.flights = slices.DeleteFunc(slices.Clone(w.flights), func(f *flight) bool {
			if w.isOver(f) {
				finished = append(finished, f)
			}
			return f.over
		})
	}
	if w.settling = len(w.flights) > 0; w.settling {
		oldest = w.flights[0].msg
	}
	return finished, oldest
}

// isOver reports whether a message was acked or nacked, or the window has expired, so that
// neither has an effect any more. It records that in the flight.
func (w *Window) isOver(f *flight) bool {
	f.over = isClosed(f.msg.Acked()) || isClosed(f.msg.Nacked()) || isClosed(w.expired)
	return f.over
}

// finish acts on the ack or nack of a message. If the window expired before either came, the
// message stays unacked at the server, and [Window.Drain] returns its delivery.
func (w *Window) finish(f *flight) {
	f.end()
	switch {
	case isClosed(f.msg.Acked()):
		f.delivery.Ack()
	case isClosed(f.msg.Nacked()):
		after, err := time.ParseDuration(f.msg.Metadata[delay.DelayedForKey])
		if err != nil || w.opt.Later == nil {
			w.work.Go(func() { w.hold(f) })
			return
		}
		w.opt.Later(f.delivery, after)
	default:
		w.mu.Lock()
		w.left = append(w.left, f.delivery)
		w.mu.Unlock()
	}
	w.release(f.delivery)
}

// isClosed reports whether a channel, which is never sent to, is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// hold delivers a nacked message again after its delay. It returns the message to the server
// if the intake ends first, or if the server would not leave it with the window. A message
// that gets stale meanwhile is dropped within a second, since its slot is needed.
func (w *Window) hold(f *flight) {
	wait := broker.RedeliveryDelay(f.deliveries)
	if w.opt.Hold > 0 {
		wait = min(wait, w.opt.Hold)
	}
	for ; wait > 0 && !f.delivery.Stale() && pause.For(w.ctx, min(wait, time.Second)); wait -= time.Second {
	}
	if w.opt.Hold > 0 || !w.deliver(f.delivery, f.deliveries+1) {
		w.release(f.delivery)
		giveBack(f.delivery)
	}
}

// acquire waits until the message has a slot in the window, first come, first
// served. It returns false if the intake ended first.
func (w *Window) acquire(d Delivery) bool {
	if w.slots.Acquire(w.ctx, 1) != nil {
		return false
	}
	if w.bytes.Acquire(w.ctx, w.weight(d)) != nil {
		w.slots.Release(1)
		return false
	}
	return true
}

// release frees the slot of a message.
func (w *Window) release(d Delivery) {
	w.bytes.Release(w.weight(d))
	w.slots.Release(1)
}

// weight returns how many bytes a message counts for. A message that is larger than the
// bound is alone in the window.
func (w *Window) weight(d Delivery) int64 { return int64(min(d.Bytes(), w.opt.Bytes)) }
