package gochannel

import (
	"context"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
)

type groupKey struct{ role, topic string }

// A group is what the subscribers of a role share: the messages of a topic that
// none of them has acked.
type group struct {
	broker *Broker
	key    groupKey
	users  int           // subscribers that keep it; guarded by the broker's joining
	gone   chan struct{} // closed when nobody keeps it any more
	lanes  broker.Lanes

	mu      sync.Mutex
	members []*member
	changed chan struct{} // closed when members change
}

// A member is one subscription.
type member struct {
	ctx     context.Context // of its messages
	out     chan *message.Message
	gone    <-chan struct{} // closed when it won't ack any more
	senders sync.WaitGroup  // those that may send to out
}

// join returns the group, which the caller keeps until it leaves.
func (b *Broker) join(key groupKey) (*group, error) {
	b.joining.Lock()
	defer b.joining.Unlock()
	if g, ok := b.groups[key]; ok {
		g.users++
		return g, nil
	}
	g := &group{broker: b, key: key, users: 1, gone: make(chan struct{}), changed: make(chan struct{})}
	ctx, stop := context.WithCancel(context.Background())
	in, err := b.bus.Subscribe(ctx, key.topic)
	if err != nil {
		stop()
		return nil, err
	}
	if !b.start(func() { g.run(in, stop) }) {
		stop()
		return nil, ErrClosed
	}
	b.groups[key] = g
	return g, nil
}

// leave gives up a group. Without anyone who keeps it, it is forgotten.
func (b *Broker) leave(g *group) {
	b.joining.Lock()
	defer b.joining.Unlock()
	if g.users--; g.users == 0 {
		delete(b.groups, g.key)
		close(g.gone)
	}
}

// run queues messages until nobody keeps the group, or the broker is over.
func (g *group) run(in <-chan *message.Message, stop context.CancelFunc) {
	defer g.lanes.Wait()
	defer stop()
	for {
		select {
		case msg := <-in:
			if msg == nil {
				return
			}
			g.broker.count(+1)
			g.queue(msg, 1)
			msg.Ack() // it is queued
		case <-g.gone:
			return
		case <-g.broker.ended:
			return
		}
	}
}

// queue puts a message into the lane of its key.
func (g *group) queue(msg *message.Message, delivery int) {
	g.lanes.Go(broker.Key(msg), func() {
		if g.deliver(msg, delivery) {
			g.broker.count(-1)
			return
		}
		g.lanes.Go("", func() { // the lane goes on meanwhile
			t := time.NewTimer(broker.RedeliveryDelay(delivery))
			defer t.Stop()
			select {
			case <-t.C:
				g.queue(msg, delivery+1)
			case <-g.gone:
				g.broker.count(-1)
			case <-g.broker.ended:
			}
		})
	})
}

// deliver hands a message to a member. It returns false if the message must
// come again, true if it was acked or nobody is left.
func (g *group) deliver(msg *message.Message, delivery int) bool {
	for ; ; delivery++ {
		sent, m, done := g.send(msg, delivery)
		if sent == nil {
			return true
		}
		defer done()
		select {
		case <-sent.Acked():
			return true
		case <-sent.Nacked():
			return false
		case <-m.gone: // another member gets it at once
		case <-g.broker.ended:
			return true
		}
	}
}

// send returns which copy of a message was taken by which member, nil if nobody
// is left to take it. Done ends the context of the copy.
func (g *group) send(msg *message.Message, delivery int) (_ *message.Message, _ *member, done func()) {
	for {
		members, changed := g.now()
		copies := make([]*message.Message, len(members))
		ends := make([]context.CancelFunc, len(members))
		cases := []reflect.SelectCase{receiveFrom(changed), receiveFrom(g.gone), receiveFrom(g.broker.ended)}
		others := len(cases)
		for i, m := range members {
			copies[i], ends[i] = m.copyOf(msg, delivery)
			cases = append(cases, reflect.SelectCase{Dir: reflect.SelectSend, Chan: reflect.ValueOf(m.out), Send: reflect.ValueOf(copies[i])})
		}
		chosen, _, _ := reflect.Select(cases)
		for i, m := range members {
			m.senders.Done()
			if i != chosen-others {
				ends[i]()
			}
		}
		if chosen >= others {
			return copies[chosen-others], members[chosen-others], ends[chosen-others]
		}
		if chosen > 0 {
			return nil, nil, nil
		}
	}
}

func receiveFrom(c <-chan struct{}) reflect.SelectCase {
	return reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(c)}
}

// copyOf returns a message for this member, and what ends its context.
func (m *member) copyOf(msg *message.Message, delivery int) (*message.Message, context.CancelFunc) {
	c := msg.Copy()
	c.Payload = slices.Clone(msg.Payload) // readers may write into it
	c.Metadata[broker.MetaDelivery] = strconv.Itoa(delivery)
	ctx, end := context.WithCancel(m.ctx)
	c.SetContext(ctx)
	return c, end
}

// now returns the members, to each of which the caller may send until it is
// done with its senders, and a channel that is closed when they change.
func (g *group) now() ([]*member, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.members {
		m.senders.Add(1)
	}
	return slices.Clone(g.members), g.changed
}

func (g *group) add(m *member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members = append(g.members, m)
	close(g.changed)
	g.changed = make(chan struct{})
}

// remove ends a member and closes its channel.
func (g *group) remove(m *member) {
	g.mu.Lock()
	g.members = slices.DeleteFunc(g.members, func(o *member) bool { return o == m })
	close(g.changed)
	g.changed = make(chan struct{})
	g.mu.Unlock()
	m.senders.Wait()
	close(m.out)
}
