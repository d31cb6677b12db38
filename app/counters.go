package app

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// Counters count the work of an [App], since the start. The zero value is ready
// to use; all methods are safe for concurrent use.
type Counters struct {
	commands counts[handlers.Result]
	dead     counts[string] // dead letters, by how much of them was kept
	failures counts[string] // of handlers, by prefix

	mu        sync.Mutex
	forwarded int64
	lateness  Lateness
	worst     time.Duration // since TakeWorst

	eventsReached atomic.Int64
	eventsExpired atomic.Int64
	eventsParked  atomic.Int64

	quotasUsed    atomic.Int64
	quotasRefused atomic.Int64

	limits atomic.Pointer[quota.Limiter] // of the App; nil if there are none
}

// Held returns the tenants whose events are late by their own fire rate, and are not
// counted as late. See [quota.Limiter.Held].
func (c *Counters) Held() map[timer.TenantID]time.Time { return c.limits.Load().Held() }

// Commands returns how many deliveries had which result.
func (c *Counters) Commands() map[handlers.Result]int64 { return c.commands.all() }

// DeadLetters returns how many dead letters there were, by how much of them was kept:
// [handlers.KeptWhole] and so on.
func (c *Counters) DeadLetters() map[string]int64 { return c.dead.all() }

func (c *Counters) deadLettered(kept string) { c.dead.add(kept, 1) }

// Reached returns how many timers fired.
func (c *Counters) Reached() int64 { return c.eventsReached.Load() }

// Expired returns how many timers expired.
func (c *Counters) Expired() int64 { return c.eventsExpired.Load() }

// HandlerFailures returns how many calls of handlers of [Timers.OnDue] failed, by the prefix of
// the handler.
func (c *Counters) HandlerFailures() map[string]int64 { return c.failures.all() }

// Forwarded returns how many events the broker acked.
func (c *Counters) Forwarded() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.forwarded
}

// Lateness returns how late the events were that the broker acked.
func (c *Counters) Lateness() Lateness {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lateness
}

// TakeWorst returns how late the worst event was that the broker acked since the call
// before, so it is for one caller.
func (c *Counters) TakeWorst() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	worst := c.worst
	c.worst = 0
	return worst
}

// Parked returns how many events the broker refused for good.
func (c *Counters) Parked() int64 { return c.eventsParked.Load() }

// QuotasChanged counts a change of quotas, or the reason why there was none.
func (c *Counters) QuotasChanged(err error) {
	if err != nil {
		c.quotasRefused.Add(1)
	} else {
		c.quotasUsed.Add(1)
	}
}

// Quotas returns how often new quotas came into force, and how often they were
// refused and those from before stayed.
func (c *Counters) Quotas() (used, refused int64) {
	return c.quotasUsed.Load(), c.quotasRefused.Load()
}

func (c *Counters) handled(r handlers.Result) { c.commands.add(r, 1) }

// handlerFailed counts failed calls of the handler with a prefix.
func (c *Counters) handlerFailed(prefix string, calls int64) { c.failures.add(prefix, calls) }

func (c *Counters) reached(events []timer.DueTimeReached) {
	expired := int64(0)
	for i := range events {
		if events[i].State() == timer.Expired {
			expired++
		}
	}
	c.eventsReached.Add(int64(len(events)) - expired)
	c.eventsExpired.Add(expired)
}

// latenessBounds are the upper bounds of the buckets of a [Lateness] but the last.
var latenessBounds = [...]time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute,
}

// A Lateness counts published events by how late they were: from the due time to
// the broker's ack. An ack is known when the whole batch is, so this is an upper
// bound. A timer that was due before it was scheduled is late, too. One that has expired is
// not counted.
type Lateness struct {
	Events  int64                          // whose due time is known: all that the service made
	Sum     time.Duration                  // of all
	Max     time.Duration                  // the worst since the start
	Missed  int64                          // events that were later than the objective of their tenant, see [quota.Limits]
	Buckets [len(latenessBounds) + 1]int64 // events by their lateness: up to a bound of [LatenessBounds], and later than the bound before; the last has no bound
}

// LatenessBounds returns the upper bounds of [Lateness].Buckets but the last, which
// has none.
func LatenessBounds() []time.Duration { return slices.Clone(latenessBounds[:]) }

// Quantile returns a lateness that at least a share of the events, such as 0.99 of them, did
// not exceed: the upper bound of a bucket, or Max if that is less.
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

// hooks returns hooks that count.
func (c *Counters) hooks() Hooks {
	return Hooks{Reached: c.reached, Published: c.published, Parked: func(*message.Message, string) { c.eventsParked.Add(1) }}
}

// published counts events that the broker acked.
func (c *Counters) published(at time.Time, events []*message.Message) {
	held, limits := c.Held(), c.limits.Load()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forwarded += int64(len(events))
	for _, e := range events {
		due, counts := outbox.DueAt(e)
		tenant := timer.TenantID(e.Metadata.Get(envelope.HeaderTenantID))
		if _, own := held[tenant]; own || !counts {
			continue
		}
		by := max(at.Sub(due), 0)
		c.lateness.add(by)
		if by > quota.MinObjective && by > limits.Objective(tenant) {
			c.lateness.Missed++
		}
		c.worst = max(c.worst, by)
	}
}

// counts are numbers by their key. The zero value is ready to use.
type counts[K comparable] struct {
	mu sync.Mutex
	by map[K]int64
}

func (c *counts[K]) add(key K, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = make(map[K]int64)
	}
	c.by[key] += n
}

func (c *counts[K]) all() map[K]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.by)
}
