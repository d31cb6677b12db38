package app

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// Counters count what an [App] does, since the start. The zero value is ready
// to use; all methods are safe for concurrent use.
type Counters struct {
	mu        sync.Mutex
	commands  map[handlers.Result]int64
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
func (c *Counters) Commands() map[handlers.Result]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.commands)
}

// Reached returns how many timers fired.
func (c *Counters) Reached() int64 { return c.eventsReached.Load() }

// Expired returns how many timers expired.
func (c *Counters) Expired() int64 { return c.eventsExpired.Load() }

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

func (c *Counters) handled(r handlers.Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.commands == nil {
		c.commands = make(map[handlers.Result]int64)
	}
	c.commands[r]++
}

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

func (c *Counters) parked(string) { c.eventsParked.Add(1) }
