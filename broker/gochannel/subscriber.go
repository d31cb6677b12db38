package gochannel

import (
	"bytes"
	"context"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker/inflight"
)

// An entry is a published message.
type entry struct {
	broker    *Broker
	msg       *message.Message // handlers get copies
	unsettled atomic.Int32     // groups that have not acked the message
}

// settle notes that one group has acked or discarded the message.
func (e *entry) settle() {
	if e.unsettled.Add(-1) == 0 {
		e.broker.pending.Release(1)
	}
}

// A groupID identifies a group.
type groupID struct{ topic, role string }

// A group holds the messages of a topic that a role has not acked. The subscribers of the
// role share it.
type group struct {
	broker *Broker
	queue  chan *delivery // it is never full, since [Options.Pending] limits all messages

	// Guarded by the mu of the broker.
	users     int // subscribers that keep the group
	discarded bool
	open      map[*delivery]bool // deliveries that were not acked
}

// A delivery is an entry in a group. See [inflight.Delivery].
type delivery struct {
	*entry
	group *group
	times int                             // how often it was delivered
	last  atomic.Pointer[message.Message] // the copy that was delivered last
}

// Bytes returns about how much memory the message takes.
func (d *delivery) Bytes() int { return len(d.msg.Payload) + 512 }

// Message returns a copy.
func (d *delivery) Message() *message.Message {
	d.times++
	c := d.msg.Copy()
	c.Payload = bytes.Clone(d.msg.Payload) // readers may write into it
	d.last.Store(c)
	return c
}

// waits reports whether a handler has nacked the message, so that it waits for its retry.
func (d *delivery) waits() bool {
	msg := d.last.Load()
	if msg == nil {
		return false
	}
	select {
	case <-msg.Nacked():
		return true
	default:
		return false
	}
}

// Stale returns false: a message has one subscription.
func (d *delivery) Stale() bool { return false }

// Ack removes the message from the group.
func (d *delivery) Ack() {
	d.broker.mu.Lock()
	defer d.broker.mu.Unlock()
	d.discard()
}

// discard forgets a message that is handled. The caller holds the mu of the broker.
func (d *delivery) discard() {
	delete(d.group.open, d)
	d.settle()
}

// Return queues the message for another subscription.
func (d *delivery) Return() {
	d.broker.mu.Lock()
	defer d.broker.mu.Unlock()
	d.group.push(d)
}

// push queues a delivery. The caller holds the mu of the broker.
func (g *group) push(d *delivery) {
	if g.discarded {
		d.discard()
		return
	}
	g.open[d] = true
	g.queue <- d
}

// deliver gives deliveries to a window until ctx is done.
func (g *group) deliver(ctx context.Context, w *inflight.Window) {
	inflight.Each(ctx, g.queue, func(d *delivery) bool {
		w.Add(d, d.times+1)
		return true
	})
}

// requeue queues the messages that a subscription had in flight when its subscriber
// closed.
func (g *group) requeue(left []inflight.Delivery) {
	g.broker.mu.Lock()
	defer g.broker.mu.Unlock()
	for _, d := range left {
		g.push(d.(*delivery))
	}
}

// subscriber subscribes for a role. See [broker.Broker] for its contract.
type subscriber struct {
	*inflight.Subscriptions
	broker *Broker
	role   string
	groups map[groupID]*group // groups that it keeps; guarded by the mu of the broker
}

// SubscribeInitialize keeps messages of a topic for the role from now on, as
// Subscribe does.
func (s *subscriber) SubscribeInitialize(topic string) error {
	s.broker.mu.Lock()
	defer s.broker.mu.Unlock()
	if s.Closed() {
		return ErrClosed
	}
	s.group(topic)
	return nil
}

// Subscribe delivers messages that were published to a topic since the role first
// subscribed, and that are not acked.
func (s *subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	w, err := s.Open(ctx, inflight.Options{})
	if err != nil {
		return nil, err
	}
	s.broker.mu.Lock()
	g := s.group(topic)
	s.broker.mu.Unlock()
	w.Run(func(intake context.Context) {
		g.deliver(intake, w)
		w.Close()
		g.requeue(w.Drain(0, 0, nil))
	})
	return w.Messages(), nil
}

// group returns the group of the role for a topic, and keeps it until Close. The caller holds
// the mu of the broker.
func (s *subscriber) group(topic string) *group {
	b, id := s.broker, groupID{topic, s.role}
	g := b.groups[id]
	if g == nil {
		g = &group{broker: b, queue: make(chan *delivery, b.opt.Pending), open: make(map[*delivery]bool)}
		b.groups[id] = g
	}
	if s.groups[id] == nil {
		s.groups[id] = g
		g.users++
	}
	return g
}

// Close ends all subscriptions and waits until their channels are closed. Messages in
// flight go to other subscribers of the role; without any they are discarded.
func (s *subscriber) Close() error {
	err := s.Subscriptions.Close()
	b := s.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, g := range s.groups {
		delete(s.groups, id)
		if g.users--; g.users > 0 {
			continue
		}
		delete(b.groups, id)
		g.discarded = true
		for len(g.queue) > 0 {
			(<-g.queue).discard()
		}
	}
	return err
}
