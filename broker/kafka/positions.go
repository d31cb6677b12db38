package kafka

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/event-service-agent/timer-service/timer"
)

// A log of a [timer.Position] is a partition. The number of a record is its offset + 1,
// so that 0 stands for no record. So Committed is N if everything below the offset N is
// handled, which is the offset that Kafka commits, and a reader goes on behind the number
// N at the offset N.
//
// logName returns the name of a partition's log. The id of the topic distinguishes it
// from a topic of the same name that was deleted or made again.
func logName(p partition, id kadm.TopicID) string {
	return p.topic + "/" + strconv.Itoa(int(p.number)) + "@" + id.String()
}

// maxWritten is the most logs that this process remembers having written to. A tenant may
// have logs of its own, and hostile tenants may be many. Messages of a log that is
// forgotten are read again in a recovery, which is harmless.
const maxWritten = 1000

// A writtenLog is a log of events or dead letters that this process has published to.
type writtenLog struct {
	id   kadm.TopicID
	seen timer.Position
}

// note notes the offset of a published record for [Broker.Positions]. The caller holds
// the lock.
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

// Positions returns how far the partitions of commands that are assigned to this process
// are handled, and how far it has published events and dead letters.
func (b *Broker) Positions(role string) []timer.Position {
	var all []timer.Position
	b.mu.Lock()
	for _, l := range b.written {
		all = append(all, l.seen)
	}
	g := b.groups[b.commandsOf(role)]
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
