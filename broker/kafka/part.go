package kafka

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/broker/inflight"
)

// A partition names one of a topic.
type partition struct {
	topic  string
	number int32
}

// A part is a partition while it is assigned to us. Kafka keeps one number a
// partition, below which everything is handled; a part knows what is handled
// above it. The group's lock guards it.
type part struct {
	partition
	group   *group
	sub     *subscription // whose it is; nil while there is none
	leaving bool          // it goes to others: no more of it goes to windows
	gone    atomic.Bool   // it was revoked or lost

	slots  []slot      // from the first that is not handled on, in the order of the log
	base   int64       // number of the first slot
	queue  []*delivery // those that no window has
	sorted bool        // whether the queue is in the order of the log
	bytes  int         // of the queue, about
	given  int         // how many windows have
	from   int64       // position before it was assigned to us
	done   ranges      // handled above that position then

	next    int64 // offset after the last that was polled; -1 before the first
	epoch   int32 // of the leader then
	version int   // grows with every change that is to be committed
	sent    int   // the version that was committed
}

// A slot is a record that was polled.
type slot struct {
	offset int64
	open   *delivery // nil when it is handled
}

// A delivery is a record that is not handled yet.
type delivery struct {
	part   *part
	record *kgo.Record
	number int64         // of its slot
	holder *subscription // whose window has it
	times  atomic.Int32  // how often it was delivered
	void   atomic.Bool   // it means nothing: it was handled, another has taken its place, or its record is no more
}

func newPart(g *group, p partition) *part {
	return &part{partition: p, group: g, next: -1, epoch: -1, sorted: true}
}

// learn takes over what was committed before the partition was assigned to us.
func (p *part) learn(offset int64, metadata string) {
	p.from, p.done = offset, decodeRanges(offset, metadata)
}

// add takes a record that was polled. One that needs no delivery is handled.
func (p *part) add(r *kgo.Record, handled bool) {
	if r.Offset < max(p.from, p.next) { // the log was cut there, or began anew
		p.cut(r.Offset)
	}
	number := p.base + int64(len(p.slots))
	s := slot{offset: r.Offset}
	if !handled && !p.done.contain(r.Offset) {
		s.open = &delivery{part: p, record: r, number: number}
		p.enqueue(s.open)
	}
	p.slots = append(p.slots, s)
	p.next, p.epoch = r.Offset+1, r.LeaderEpoch
	if s.open == nil {
		p.version++
		p.trim()
	}
}

// enqueue has a delivery wait for a window.
func (p *part) enqueue(d *delivery) {
	p.queue = append(p.queue, d)
	p.bytes += d.Bytes()
}

// cut forgets what was at an offset and above: the log was cut there, and what
// it holds now is of others. What is below is there as before.
func (p *part) cut(offset int64) {
	p.from, p.done = 0, nil
	n := len(p.slots)
	for n > 0 && p.slots[n-1].offset >= offset {
		n--
		if d := p.slots[n].open; d != nil {
			d.void.Store(true)
			if d.holder != nil {
				p.given--
			}
		}
	}
	clear(p.slots[n:])
	p.slots = p.slots[:n]
	p.queue = slices.DeleteFunc(p.queue, func(d *delivery) bool {
		if d.void.Load() {
			p.bytes -= d.Bytes()
		}
		return d.void.Load()
	})
	p.version++
}

// take returns up to n deliveries for a window, oldest first.
func (p *part) take(n int) []*delivery {
	if !p.sorted {
		slices.SortFunc(p.queue, func(a, b *delivery) int { return cmp.Compare(a.number, b.number) })
		p.sorted = true
	}
	n = min(n, len(p.queue))
	taken := slices.Clone(p.queue[:n])
	for _, d := range taken {
		p.bytes -= d.Bytes()
	}
	clear(p.queue[:n])
	p.queue = p.queue[n:]
	p.given += n
	return taken
}

// putBack takes back what a window had.
func (p *part) putBack(d *delivery) {
	if d.void.Load() || p.gone.Load() {
		return
	}
	d.void.Store(true)
	again := &delivery{part: p, record: d.record, number: d.number}
	again.times.Store(d.times.Load())
	p.slots[d.number-p.base].open = again
	p.enqueue(again)
	p.sorted = false
	p.given--
}

// handled notes that a delivery needs no other.
func (p *part) handled(d *delivery) {
	if d.void.Swap(true) || p.gone.Load() {
		return
	}
	p.slots[d.number-p.base].open = nil
	p.given--
	p.version++
	p.trim()
}

// trim lets go of what is handled at the front.
func (p *part) trim() {
	n := 0
	for n < len(p.slots) && p.slots[n].open == nil {
		n++
	}
	p.slots = p.slots[n:]
	p.base += int64(n)
}

// mark returns the offset below which everything is handled, and what is handled
// above.
func (p *part) mark() (offset int64, above ranges) {
	if len(p.slots) == 0 {
		return p.next, nil
	}
	for i := 0; i < len(p.slots) && len(above) < maxRanges; i++ {
		s := p.slots[i]
		switch {
		case s.open != nil:
		case p.slots[i-1].open == nil: // the first slot is never handled
			above[len(above)-1].to = s.offset + 1
		default:
			above = append(above, span{s.offset, s.offset + 1})
		}
	}
	return p.slots[0].offset, above
}

// Topic returns the topic of the record.
func (d *delivery) Topic() string { return d.record.Topic }

// Header returns the value of a header, or "".
func (d *delivery) Header(name string) string {
	if reserved(name) {
		return ""
	}
	value, _ := header(d.record, name)
	return value
}

// Body returns the value of the record.
func (d *delivery) Body() []byte { return d.record.Value }

// Bytes returns about how much memory the record takes.
func (d *delivery) Bytes() int { return weight(d.record) }

// Message returns the message as handlers read it.
func (d *delivery) Message() *message.Message {
	d.times.Add(1)
	return unmarshal(d.record)
}

// Stale reports whether the partition went to others.
func (d *delivery) Stale() bool { return d.void.Load() || d.part.gone.Load() }

// Ack has the record committed.
func (d *delivery) Ack() { d.part.group.handled(d) }

// Return has the record delivered by another subscription of this process, or by
// whoever gets the partition.
func (d *delivery) Return() { d.part.group.putBack(d) }

var _ inflight.Delivery = (*delivery)(nil)
