package kafka

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	takeAtOnce = 64       // deliveries that go to a window in one step
	lowWater   = 2048     // a subscription that has fewer waiting wants more
	highWater  = 8192     // one that has more waits while others do not
	lowBytes   = 32 << 20 // the same of their memory, about
	highBytes  = 64 << 20
	maxSlots   = 200_000 // records of a partition after the first that is not handled
)

// A groupID is what a position is kept for.
type groupID struct{ role, topic string }

// name returns the name of the consumer group. It is stable, since Kafka keeps
// the position under it.
func (id groupID) name(prefix string) string { return prefix + id.role + "." + id.topic }

// A group is this process as a member of a consumer group: one for all
// subscriptions of a role and a topic. It outlives them until what they have in
// flight is settled.
type group struct {
	broker *Broker
	id     groupID
	before *group        // the member that this one follows; nil if there is none
	stop   chan struct{} // closed when no subscription is left
	gone   chan struct{} // closed when the member has left
	room   chan struct{} // holds one: deliveries were taken
	idle   chan struct{} // holds one: windows have nothing of a partition any more

	committing sync.Mutex // held by whoever commits

	mu     sync.Mutex
	users  int             // subscriptions that are not over
	subs   []*subscription // those whose intake is open
	parts  map[partition]*part
	done   map[partition]ranges // of partitions that are being assigned
	paused map[partition]bool
}

// enter has a subscription join the group of a role and a topic.
func (b *Broker) enter(id groupID, s *subscription) {
	b.mu.Lock()
	g := b.groups[id]
	if g == nil || !g.join(s) {
		g = &group{
			broker: b, id: id, before: g,
			stop:   make(chan struct{}),
			gone:   make(chan struct{}),
			room:   make(chan struct{}, 1),
			idle:   make(chan struct{}, 1),
			parts:  make(map[partition]*part),
			done:   make(map[partition]ranges),
			paused: make(map[partition]bool),
			subs:   []*subscription{s},
			users:  1,
		}
		b.groups[id] = g
		b.term.Go(g.run)
	}
	b.mu.Unlock()
	s.group = g
}

// join reports whether a subscription could join; the group may be at its end.
func (g *group) join(s *subscription) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.users == 0 {
		return false
	}
	g.users++
	g.subs = append(g.subs, s)
	g.share()
	return true
}

// leave ends the intake of a subscription.
func (g *group) leave(s *subscription) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.subs = slices.DeleteFunc(g.subs, func(other *subscription) bool { return other == s })
	g.share()
}

// release ends a subscription for good: what its window still has goes to
// others.
func (g *group) release(s *subscription) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.parts {
		for _, slot := range p.slots {
			if d := slot.open; d != nil && d.holder == s {
				p.putBack(d)
			}
		}
	}
	g.share()
	if g.users--; g.users == 0 {
		close(g.stop)
	}
}

// share gives each partition to one of the subscriptions, so that a key is with
// one of them.
func (g *group) share() {
	parts := make([]*part, 0, len(g.parts))
	for _, p := range g.parts {
		parts = append(parts, p)
	}
	slices.SortFunc(parts, func(a, b *part) int {
		return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.number, b.number))
	})
	for i, p := range parts {
		p.sub = nil
		if len(g.subs) > 0 && !p.leaving {
			p.sub = g.subs[i%len(g.subs)]
		}
	}
	g.wake()
}

// wake has everyone look again.
func (g *group) wake() {
	for _, s := range g.subs {
		signal(s.more)
	}
	signal(g.room)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// take returns deliveries of one partition for a subscription. It returns none
// if ctx is done first.
func (g *group) take(ctx context.Context, s *subscription) []*delivery {
	for ctx.Err() == nil { // else what the window returns would be taken again
		if taken := g.taken(s); len(taken) > 0 {
			signal(g.room)
			return taken
		}
		select {
		case <-s.more:
		case <-ctx.Done():
		}
	}
	return nil
}

// taken takes from the partition whose turn it is.
func (g *group) taken(s *subscription) []*delivery {
	g.mu.Lock()
	defer g.mu.Unlock()
	var longest *part
	for _, p := range g.parts {
		if p.sub == s && len(p.queue) > 0 && (longest == nil || len(p.queue) > len(longest.queue)) {
			longest = p
		}
	}
	if longest == nil {
		return nil
	}
	taken := longest.take(takeAtOnce)
	for _, d := range taken {
		d.holder = s
	}
	return taken
}

// handled notes that a delivery needs no other.
func (g *group) handled(d *delivery) {
	g.mu.Lock()
	defer g.mu.Unlock()
	d.part.handled(d)
	g.settled(d.part)
}

// putBack takes back what a window had.
func (g *group) putBack(d *delivery) {
	g.mu.Lock()
	defer g.mu.Unlock()
	d.part.putBack(d)
	g.settled(d.part)
	if s := d.part.sub; s != nil {
		signal(s.more)
	}
}

func (g *group) settled(p *part) {
	if p.given == 0 {
		signal(g.idle)
	}
}

// A backlog is what waits for a subscription.
type backlog struct{ messages, bytes int }

func (b backlog) low() bool  { return b.messages < lowWater && b.bytes < lowBytes }
func (b backlog) high() bool { return b.messages >= highWater || b.bytes >= highBytes }

// waiting returns what waits for each subscription.
func (g *group) waiting() map[*subscription]backlog {
	all := make(map[*subscription]backlog, len(g.subs))
	for _, s := range g.subs {
		all[s] = backlog{}
	}
	for _, p := range g.parts {
		if p.sub != nil {
			b := all[p.sub]
			all[p.sub] = backlog{b.messages + len(p.queue), b.bytes + p.bytes}
		}
	}
	return all
}

// hungry reports whether a subscription wants more.
func (g *group) hungry() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, b := range g.waiting() {
		if b.low() {
			return true
		}
	}
	return false
}

// throttle pauses the partitions of subscriptions that do not keep up while
// others do, and those in which one record holds up too many. It reports whether
// any is paused.
func (g *group) throttle(client *kgo.Client) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	waiting := g.waiting()
	pause, resume := make(map[string][]int32), make(map[string][]int32)
	for id, p := range g.parts {
		full := len(p.slots) >= maxSlots || p.sub != nil && waiting[p.sub].high()
		if g.paused[id] && p.sub != nil && !waiting[p.sub].low() {
			full = true
		}
		switch {
		case full && !g.paused[id]:
			pause[id.topic] = append(pause[id.topic], id.number)
			g.paused[id] = true
		case !full && g.paused[id]:
			resume[id.topic] = append(resume[id.topic], id.number)
			delete(g.paused, id)
		}
	}
	if len(pause) > 0 {
		client.PauseFetchPartitions(pause)
	}
	if len(resume) > 0 {
		client.ResumeFetchPartitions(resume)
	}
	return len(g.paused) > 0
}

// awaitHunger waits until a subscription wants more. It returns false if ctx is
// done first.
func (g *group) awaitHunger(ctx context.Context) bool {
	for !g.hungry() {
		select {
		case <-g.room:
		case <-ctx.Done():
			return false
		}
	}
	return ctx.Err() == nil
}

// quiet waits until windows have nothing of partitions any more, for a while.
func (g *group) quiet(parts []*part, limit time.Duration) {
	late := time.NewTimer(limit)
	defer late.Stop()
	for {
		g.mu.Lock()
		given := 0
		for _, p := range parts {
			given += p.given
		}
		g.mu.Unlock()
		if given == 0 {
			return
		}
		select {
		case <-g.idle:
		case <-g.stop:
			return
		case <-late.C:
			return
		}
	}
}
