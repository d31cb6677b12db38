package kafka

import (
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/broker/inflight"
)

// A partition identifies a partition of a topic.
type partition struct {
	topic  string
	number int32
}

// An assignment is a partition while it is assigned to us. Its lowest open offset is the one to
// commit: below it everything is handled. The group's lock guards an assignment.
type assignment struct {
	partition
	group   *group
	leaving bool // it goes to another member, so nothing more of it is delivered
	gone    bool // it was revoked or lost

	id  kadm.TopicID // id of the topic
	log string       // name of the log as in [timer.Number]; empty before the first record

	open      map[int64]*delivery // polled deliveries that are not handled, by offset
	below     int64               // last result of [assignment.low]; everything below it is handled
	committed int64               // last committed offset; -1 before our first commit
	next      int64               // offset after the last polled record; -1 before the first
	epoch     int32               // epoch of the leader that the last record came from
}

func newAssignment(g *group, p partition) *assignment {
	return &assignment{partition: p, group: g, open: make(map[int64]*delivery), below: -1, committed: -1, next: -1, epoch: -1}
}

// add adds a record that was polled.
func (p *assignment) add(r *kgo.Record, now time.Time) *delivery {
	// The log was cut at this offset, or the topic was made again: records from here on are gone.
	if r.Offset < p.next {
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

// low returns the offset below which everything is handled; -1 if it is unknown. It is
// called often, while up to a hundred thousand deliveries may be open. So it goes on from
// its last result, and looks at all open deliveries only after a gap that is longer than
// their number.
func (p *assignment) low() int64 {
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

// has reports whether a delivery with an offset below the given one is in one of the
// states.
func (p *assignment) has(below int64, states ...state) bool {
	for offset, d := range p.open {
		if offset < below && slices.Contains(states, d.state) {
			return true
		}
	}
	return false
}

// busy reports whether a delivery is in flight, or on its way to the end of the topic.
func (p *assignment) busy() bool { return p.has(p.next, inFlight, publishing) }

// A state is the state of a delivery:
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
	held       // in memory until its retry is due
	inFlight   // in a window
	publishing // on its way to the end of the topic
	settled
)

// A delivery is a record that is not handled yet. The group's lock guards it.
type delivery struct {
	part      *assignment
	record    *kgo.Record
	state     state
	count     int       // how often it was delivered
	notBefore time.Time // when it is to be delivered next
	release   time.Time // when it has to be published again if it is still held
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

// settle marks a delivery as handled, so that it needs no redelivery.
func (d *delivery) settle() {
	if !d.stale() {
		delete(d.part.open, d.record.Offset)
		d.become(settled)
	}
}

// stale reports whether the record is handled, was removed from its log, or belongs to
// another member now.
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

// Ack marks the record as handled; a later commit includes it.
func (d *delivery) Ack() {
	d.part.group.mu.Lock()
	defer d.part.group.mu.Unlock()
	d.settle()
}

// Return queues the record for another subscription of this process. If there is none,
// the next member of the partition gets it.
func (d *delivery) Return() {
	d.part.group.mu.Lock()
	defer d.part.group.mu.Unlock()
	if !d.stale() {
		d.part.group.enqueue(d)
	}
}

var _ inflight.Delivery = (*delivery)(nil)
