package kafka

import (
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/broker/inflight"
)

// A partition names one of a topic.
type partition struct {
	topic  string
	number int32
}

// A part is a partition while it is assigned to us. Kafka keeps one number a
// partition, below which everything is handled: the lowest offset that is open.
// The group's lock guards it.
type part struct {
	partition
	group   *group
	leaving bool // it goes to another member: no more of it is delivered
	gone    bool // it was revoked or lost

	id  kadm.TopicID // of the topic
	log string       // as in [timer.Position]; empty before the first record

	open      map[int64]*delivery // what was polled and is not handled, by offset
	below     int64               // an offset below which everything is handled; what [part.low] found last
	committed int64               // what was committed last; -1 if nothing was since the partition is ours
	next      int64               // offset after the last that was polled; -1 before the first
	epoch     int32               // of the leader then
}

func newPart(g *group, p partition) *part {
	return &part{partition: p, group: g, open: make(map[int64]*delivery), below: -1, committed: -1, next: -1, epoch: -1}
}

// add takes a record that was polled.
func (p *part) add(r *kgo.Record, now time.Time) *delivery {
	if r.Offset < p.next { // the log was cut there, or the topic was made again: what was at this offset and above is gone
		for offset, d := range p.open {
			if offset >= r.Offset {
				d.settle()
			}
		}
		p.below = min(p.below, r.Offset)
	}
	d := &delivery{part: p, record: r, release: now.Add(maxHold)}
	d.count, d.notBefore = retryOf(r, now)
	p.open[r.Offset] = d
	p.next, p.epoch = r.Offset+1, r.LeaderEpoch
	return d
}

// low returns the offset below which everything is handled; -1 if it is unknown.
// It is asked for often, while as many as a hundred thousand may be open: it goes on
// where it ended, and looks at all of them only after a gap that is longer.
func (p *part) low() int64 {
	for range p.open {
		if p.open[p.below] != nil {
			return p.below
		}
		p.below++
	}
	p.below = p.next
	for offset := range p.open {
		p.below = min(p.below, offset)
	}
	return p.below
}

// has reports whether a delivery with an offset below the given one is in one of some
// states.
func (p *part) has(below int64, states ...state) bool {
	for offset, d := range p.open {
		if offset < below && slices.Contains(states, d.state) {
			return true
		}
	}
	return false
}

// busy reports whether a delivery is in flight, or on its way to the end of the topic.
func (p *part) busy() bool { return p.has(p.next, inFlight, publishing) }

// A state is that of a delivery:
//
//	queued ──take──► inFlight ──ack──► settled
//	  ▲  ▲ └──────◄──return──┘ │         ▲
//	  │  └─────time───┐      nack       │ stored
//	polled ─early──► held ◄────┘         │
//	                  └──too long──► publishing
type state int

// States of deliveries.
const (
	polled state = iota
	queued
	held       // in memory, until its time has come
	inFlight   // in a window
	publishing // on its way to the end of the topic
	settled
)

// A delivery is a record that is not handled yet. The group's lock guards it.
type delivery struct {
	part      *part
	record    *kgo.Record
	state     state
	count     int       // how often it was delivered
	notBefore time.Time // when it is delivered next
	release   time.Time // until when it may be held
}

// become changes the state.
func (d *delivery) become(s state) {
	g := d.part.group
	if d.state == held {
		g.held, g.heldBytes = g.held-1, g.heldBytes-d.Bytes()
	}
	if s == held {
		g.held, g.heldBytes = g.held+1, g.heldBytes+d.Bytes()
	}
	d.state = s
}

// settle notes that a delivery needs no other.
func (d *delivery) settle() {
	if !d.stale() {
		delete(d.part.open, d.record.Offset)
		d.become(settled)
	}
}

// stale reports whether the record is handled, is no more, or is delivered to
// another member.
func (d *delivery) stale() bool { return d.state == settled || d.part.gone }

// Bytes returns about how much memory the record takes.
func (d *delivery) Bytes() int { return weight(d.record) }

// Message returns the message as handlers read it.
func (d *delivery) Message() *message.Message { return unmarshal(d.record) }

// Stale reports whether the partition was assigned to another member.
func (d *delivery) Stale() bool {
	d.part.group.mu.Lock()
	defer d.part.group.mu.Unlock()
	return d.stale()
}

// Ack has the record committed.
func (d *delivery) Ack() {
	d.part.group.mu.Lock()
	defer d.part.group.mu.Unlock()
	d.settle()
}

// Return has the record delivered by another subscription of this process, or by
// the member that the partition is assigned to next.
func (d *delivery) Return() {
	d.part.group.mu.Lock()
	defer d.part.group.mu.Unlock()
	if !d.stale() {
		d.part.group.enqueue(d)
	}
}

var _ inflight.Delivery = (*delivery)(nil)
