package kafka

import (
	"context"
	"slices"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/timer"
)

// A log of a [timer.Position] is a partition. The number of a record is its offset + 1,
// so that 0 is none. So the Done N means that all below the offset N is handled, as
// what Kafka commits; and a reader goes on behind the number N at the offset N.
//
// logName returns the name of a partition's log. The id of the topic tells it from one
// that is deleted and made again. Clusters before 2.8 give none, it is zero then, and
// nothing tells the two apart.
func logName(p partition, id kadm.TopicID) string {
	return p.topic + "/" + strconv.Itoa(int(p.number)) + "@" + id.String()
}

// maxWritten is how many logs are remembered that this process has written. Those of a
// tenant may be its own, and hostile tenants are many. What is forgotten is read again
// in a recovery, without harm.
const maxWritten = 1000

// written are the logs of events and dead letters that this process has published to.
type written struct {
	mu   sync.Mutex
	logs map[partition]*writtenLog
}

type writtenLog struct {
	id   kadm.TopicID
	seen timer.Position
}

// note notes up to which number a partition was acked. The lock must be held.
func (w *written) note(p partition, id kadm.TopicID, seen int64) {
	l := w.logs[p]
	if l == nil || l.id != id {
		if len(w.logs) >= maxWritten {
			clear(w.logs)
		}
		l = &writtenLog{id, timer.Position{Log: logName(p, id)}}
		w.logs[p] = l
	}
	l.seen.Observed = max(l.seen.Observed, seen)
}

// remember notes what was published for [Broker.Positions].
func (c *call) remember() {
	var topic string
	var seen map[int32]int64
	for i, r := range c.records {
		if r == nil || c.results[i] != nil {
			continue
		}
		if r.Topic != topic {
			topic, seen = r.Topic, c.topics[r.Topic].seen
		}
		if seen != nil && r.Offset >= seen[r.Partition] {
			seen[r.Partition] = r.Offset + 1
		}
	}
	c.written.mu.Lock()
	defer c.written.mu.Unlock()
	for topic, t := range c.topics {
		for number, seen := range t.seen {
			c.written.note(partition{topic, number}, t.id, seen)
		}
	}
}

// Positions returns how far the partitions of commands are handled that are assigned to
// this process, and how far it has published events and dead letters.
func (b *Broker) Positions(role string) []timer.Position {
	var all []timer.Position
	b.written.mu.Lock()
	for _, l := range b.written.logs {
		all = append(all, l.seen)
	}
	b.written.mu.Unlock()
	g := b.group(groupID{role, b.opt.Routing.Subscription()})
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

// identify notes of which logs the partitions are that were polled, before anything of
// them is delivered. Servers before 3.1 do not say it with the records and are asked.
// While they do not answer, the log is not among the positions.
func (g *group) identify(ctx context.Context, member *kgo.Client, fetches kgo.Fetches) {
	fetches.EachTopic(func(t kgo.FetchTopic) {
		id := kadm.TopicID(t.TopicID)
		if id == (kadm.TopicID{}) {
			if g.identified(t) {
				return
			}
			asking, cancel := context.WithTimeout(ctx, askTimeout)
			defer cancel()
			details, err := kadm.NewClient(member).ListTopics(kadm.WithAuthorizedOps(asking), t.Topic)
			if err != nil || details[t.Topic].Err != nil {
				return
			}
			id = details[t.Topic].ID
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, f := range t.Partitions {
			if p := g.parts[partition{t.Topic, f.Partition}]; p != nil && (p.log == "" || p.id != id) {
				p.id, p.log = id, logName(p.partition, id)
			}
		}
	})
}

// identified reports whether all logs of a topic that was polled are known.
func (g *group) identified(t kgo.FetchTopic) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !slices.ContainsFunc(t.Partitions, func(f kgo.FetchPartition) bool {
		p := g.parts[partition{t.Topic, f.Partition}]
		return p != nil && p.log == ""
	})
}
