package quota

import (
	"maps"
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

const (
	// heldTime is how long a tenant counts as held after it has waited, because its events
	// reach the broker a moment later.
	heldTime = time.Minute
	heldFor  = time.Second // how long a list of these tenants may be used
)

// hold records that a tenant waits for its fire rate. The lock must be held.
func (l *Limiter) hold(tenant timer.TenantID, now time.Time) {
	if _, known := l.held[tenant]; !known {
		l.listedAt = time.Time{}
	}
	l.held[tenant] = now
}

// Held returns the tenants that have recently waited for their fire rate, and when. Their
// events are late because of their own limit. The caller must not change the map. A nil
// Limiter holds none.
func (l *Limiter) Held() map[timer.TenantID]time.Time {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.clock.Now(); len(l.held) > 0 && now.Sub(l.listedAt) > heldFor {
		maps.DeleteFunc(l.held, func(_ timer.TenantID, at time.Time) bool { return now.Sub(at) > heldTime })
		l.listed, l.listedAt = maps.Clone(l.held), now
	}
	return l.listed
}

// Throttled returns, in order, the tenants that have waited for their fire rate or exceeded
// another limit within the last minute. A nil Limiter throttles none.
func (l *Limiter) Throttled() []timer.TenantID {
	if l == nil {
		return nil
	}
	tenants := slices.Collect(maps.Keys(l.Held()))
	l.mu.Lock()
	defer l.mu.Unlock()
	for tenant, u := range l.usages {
		if l.clock.Now().Sub(u.exceeded) < quietTime {
			tenants = append(tenants, tenant)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(tenants)))
}
