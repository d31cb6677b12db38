package kafka

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/event-service-agent/timer-service/timer"
)

// A log of a [timer.Position] is a partition. The number of a record is its offset + 1,
// so that 0 is none. So the Done N means that all below the offset N is handled, as
// what Kafka commits; and a reader goes on behind the number N at the offset N.
//
// logName returns the name of a partition's log. The id of the topic tells it from one
// that is deleted and made again.
func logName(p partition, id kadm.TopicID) string {
	return p.topic + "/" + strconv.Itoa(int(p.number)) + "@" + id.String()
}

// maxWritten is how many logs are remembered that this process has written. Those of a
// tenant may be its own, and hostile tenants are many. What is forgotten is read again
// in a recovery, without harm.
const maxWritten = 1000

// A writtenLog is one of events or dead letters that this process has published to.
type writtenLog struct {
	id   kadm.TopicID
	seen timer.Position
}

// note notes what was published for [Broker.Positions]. The lock must be held.
func (b *Broker) note(o *outgoing) {
	if !o.topic.logged {
		return
	}
	p := partition{o.record.Topic, o.record.Partition}
	l := b.written[p]
	if l == nil || l.id != o.topic.id {
		if len(b.written) >= maxWritten {
			clear(b.written)
		}
		l = &writtenLog{o.topic.id, timer.Position{Log: logName(p, o.topic.id)}}
		b.written[p] = l
	}
	l.seen.Observed = max(l.seen.Observed, o.record.Offset+1)
}

// Positions returns how far the partitions of commands are handled that are assigned to
// this process, and how far it has published events and dead letters.
func (b *Broker) Positions(role string) []timer.Position {
	var all []timer.Position
	b.mu.Lock()
	for _, l := range b.written {
		all = append(all, l.seen)
	}
	g := b.groups[groupID{role, b.opt.Routing.Subscription()}]
	b.mu.Unlock()
	if g == nil {
		return all
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.parts {
		if p.log != "" && p.next > 0 {
			all = append(all, timer.Position{Log: p.log, Committed: p.low(), Observed: p.next})
		}
	}
	return all
}
