package kafka

import (
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
func (p *assignment) add(r *kgo.Record) *delivery {
	// The log was cut at this offset, or the topic was made again: records from here on are gone.
	if r.Offset < p.next {
		for offset, d := range p.open {
			if offset >= r.Offset {
				d.settle()
			}
		}
		p.below = min(p.below, r.Offset)
	}
	d := &delivery{part: p, record: r}
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

// busy reports whether a delivery is in flight.
func (p *assignment) busy() bool {
	for _, d := range p.open {
		if d.state == inFlight {
			return true
		}
	}
	return false
}

// A state is the state of a delivery:
//
//	polled ──► queued ──take──► inFlight ──ack──► settled
//	             ▲                 │
//	             └─────return──────┘
type state int

// States of deliveries.
const (
	polled   state = iota
	queued         // it waits for a window
	inFlight       // in a window
	settled
)

// A delivery is a record that is not handled yet. The group's lock guards it.
type delivery struct {
	part   *assignment
	record *kgo.Record
	state  state
	count  int // how often it was left in a window
}

// settle marks a delivery as handled, so that it needs no redelivery.
func (d *delivery) settle() {
	if !d.stale() {
		delete(d.part.open, d.record.Offset)
		d.state = settled
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
