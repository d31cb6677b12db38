package kafka

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/inflight"
	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/internal/pause"
)

const (
	// Above one of these limits the group polls no more messages.
	maxQueued      = 2048     // messages that wait for a window
	maxQueuedBytes = 32 << 20 // about how much memory they take

	pollAtOnce = 2048 // messages of a poll
)

// A groupID identifies a consumer group: by a role, and a topic that may hold the
// wildcard.
type groupID struct{ role, topic string }

// commandsOf returns the consumer group of a role and the commands.
func (b *Broker) commandsOf(role string) groupID {
	return groupID{role, b.opt.Routing.Subscription()}
}

// name returns the name of the consumer group. It is stable, since Kafka keeps
// the position under it.
func (id groupID) name() string { return id.role + "." + id.topic }

// A group is this process as a member of a consumer group. All subscriptions of a role
// and a topic share one member, and take from one queue. The group outlives them until
// their messages in flight are settled.
type group struct {
	broker *Broker
	id     groupID
	before *group             // the group that has to leave first; nil if there is none
	stop   context.CancelFunc // called when the last subscription has ended
	gone   chan struct{}      // closed when the member has left

	joined     atomic.Bool // it is a member
	committing sync.Mutex  // held while offsets are computed and committed

	mu          sync.Mutex
	waiting     *sync.Cond // of subscriptions, for a delivery in the queue
	users       int        // subscriptions that have not ended
	parts       map[partition]*assignment
	queue       []*delivery // deliveries that wait for a window
	queuedBytes int
}

// join returns the group of a role and a topic for one more subscription.
func (b *Broker) join(id groupID) *group {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.groups[id]
	if g != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.users > 0 { // with no user the group is about to end
			g.users++
			return g
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	g = &group{
		broker: b, id: id, before: g, stop: stop,
		gone:  make(chan struct{}),
		parts: make(map[partition]*assignment),
		users: 1,
	}
	g.waiting = sync.NewCond(&g.mu)
	b.groups[id] = g
	b.term.Go(func() { g.run(ctx) })
	return g
}

// leave ends a subscription. Another subscription gets the deliveries that are left in
// its window.
func (g *group) leave(left []inflight.Delivery) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, l := range left {
		if d := l.(*delivery); !d.stale() {
			d.count++
			g.enqueue(d)
		}
	}
	if g.users--; g.users == 0 {
		g.stop()
	}
}

// take returns the next delivery, nil if ctx is done first. The caller wakes the group at
// the end of ctx.
func (g *group) take(ctx context.Context) *delivery {
	g.mu.Lock()
	defer g.mu.Unlock()
	for ctx.Err() == nil { // after its end the window may have returned a delivery, which is for others
		if d := g.next(); d != nil {
			return d
		}
		g.waiting.Wait()
	}
	return nil
}

// wake wakes the subscriptions that wait for a delivery.
func (g *group) wake() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting.Broadcast()
}

// next returns the next delivery, nil if there is none. The caller holds the lock.
func (g *group) next() *delivery {
	for len(g.queue) > 0 {
		d := g.queue[0]
		g.queue[0] = nil
		g.queue = g.queue[1:]
		g.queuedBytes -= d.Bytes()
		if d.stale() || d.part.leaving {
			continue
		}
		d.state = inFlight
		return d
	}
	return nil
}

// enqueue queues a delivery for a window.
func (g *group) enqueue(d *delivery) {
	d.state = queued
	g.queue = append(g.queue, d)
	g.queuedBytes += d.Bytes()
	g.waiting.Broadcast()
}

// receive accepts polled records. Rebalances wait until it returns.
func (g *group) receive(fetches kgo.Fetches) {
	g.mu.Lock()
	defer g.mu.Unlock()
	received := false
	fetches.EachTopic(func(t kgo.FetchTopic) {
		removal := kindOf(g.broker.opt.Routing, t.Topic) == broker.DeadLetter
		for _, f := range t.Partitions {
			p := g.parts[partition{t.Topic, f.Partition}]
			if p == nil {
				continue // it was assigned to another member
			}
			if id := kadm.TopicID(t.TopicID); p.log == "" || p.id != id {
				p.id, p.log = id, logName(p.partition, id)
				g.broker.name(p.log)
			}
			for _, r := range f.Records {
				d := p.add(r)
				if removal && r.Value == nil || r.Attrs.IsControl() {
					d.settle()
					continue
				}
				g.enqueue(d)
				received = true
			}
		}
	})
	if received {
		failpoint.Here("fetched")
	}
}

// capacity reports whether more can be polled.
func (g *group) capacity() bool {
	return len(g.queue) < maxQueued && g.queuedBytes < maxQueuedBytes
}

// awaitCapacity waits until more can be polled. It returns false if ctx is done
// first.
func (g *group) awaitCapacity(ctx context.Context) bool {
	return pause.Until(ctx, func() (bool, error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.capacity(), ctx.Err()
	}) == nil
}

// drain waits until no message of partitions is in flight, for at most a few seconds.
func (g *group) drain(ctx context.Context, parts []*assignment) {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	_ = pause.Until(ctx, func() (bool, error) { // messages without an ack by then are redelivered
		g.mu.Lock()
		defer g.mu.Unlock()
		return !slices.ContainsFunc(parts, (*assignment).busy), nil
	})
}
