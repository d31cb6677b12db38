package app

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
)

// latenessBounds are the upper bounds of the buckets of a [Lateness] but the last.
var latenessBounds = [...]time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute,
}

// A Lateness counts published events by how late they were: from the due time to
// the broker's ack. An ack is known when the whole batch is, so this is an upper
// bound. A timer that was due before it was scheduled is late, too.
type Lateness struct {
	Events  int64                          // whose due time is known: all that the service made
	Sum     time.Duration                  // of all
	Max     time.Duration                  // the worst since the start
	Buckets [len(latenessBounds) + 1]int64 // how many were at most so late, see [LatenessBounds], and later than before; the last: later than all
}

// LatenessBounds returns the upper bounds of [Lateness].Buckets but the last, which
// has none.
func LatenessBounds() []time.Duration { return slices.Clone(latenessBounds[:]) }

// Quantile returns what at least a share of the events were not later than, such as
// 0.99 of them: the upper bound of a bucket, but at most Max.
func (l Lateness) Quantile(share float64) time.Duration {
	rank := share * float64(l.Events)
	var seen int64
	for i, bound := range latenessBounds {
		if seen += l.Buckets[i]; float64(seen) >= rank {
			return min(bound, l.Max)
		}
	}
	return l.Max
}

func (l *Lateness) add(late time.Duration) {
	i, _ := slices.BinarySearch(latenessBounds[:], late)
	l.Buckets[i]++
	l.Events++
	l.Sum += late
	l.Max = max(l.Max, late)
}

const (
	tooLate          = time.Second // after which an event is worth a warning
	latenessInterval = time.Minute // between two warnings at least
)

// A delay is what events have in common that were published too late.
type delay struct {
	events int
	worst  time.Duration
	first  *message.Message
}

func (d *delay) add(other delay) {
	if d.events == 0 {
		d.first = other.first
	}
	d.events, d.worst = d.events+other.events, max(d.worst, other.worst)
}

// A latenessLog warns of events that were published too late: of the first batch at
// once, of all others once a minute.
type latenessLog struct {
	log *slog.Logger

	mu   sync.Mutex
	news delay       // since the last warning
	end  *time.Timer // of the minute; nil if the next warning is due at once
}

func (l *latenessLog) add(d delay) {
	if d.events == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.news.add(d)
	if l.end == nil {
		l.warn()
		l.end = time.AfterFunc(latenessInterval, l.flush)
	}
}

func (l *latenessLog) warn() {
	header := l.news.first.Metadata.Get
	l.log.Warn("events were published late", "count", l.news.events, "worst", l.news.worst.Round(time.Millisecond), "first_event_id", l.news.first.UUID,
		"first_tenant_id", header(envelope.HeaderTenantID), "first_service_call_id", header(envelope.HeaderServiceCallID), "first_correlation_id", header(envelope.HeaderCorrelationID))
	l.news = delay{}
}

// flush ends the minute.
func (l *latenessLog) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end == nil {
		return // stopped meanwhile
	}
	if l.end = nil; l.news.events > 0 {
		l.warn()
		l.end = time.AfterFunc(latenessInterval, l.flush)
	}
}

// stop logs what is not logged yet.
func (l *latenessLog) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end != nil {
		l.end.Stop()
		l.end = nil
	}
	if l.news.events > 0 {
		l.warn()
	}
}

// published counts events that the broker acked, and returns those that were late.
func (c *Counters) published(at time.Time, events []*message.Message) (late delay) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forwarded += int64(len(events))
	for _, e := range events {
		due, ok := envelope.DueAt(e.UUID)
		if !ok {
			continue
		}
		by := max(at.Sub(due), 0)
		c.lateness.add(by)
		c.worst = max(c.worst, by)
		if by > tooLate {
			late.add(delay{1, by, e})
		}
	}
	return late
}
