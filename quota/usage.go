package quota

import (
	"maps"
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// A Usage has the limits of one tenant, and the use of its rates on this instance.
type Usage struct {
	TenantID timer.TenantID
	Limits
	Own      bool      // the limits are the tenant's own, not the default
	Accept   float64   // timers that may be accepted now; negative: it owes tokens; 0: no limit
	Fire     float64   // timers that may fire now, likewise
	Exceeded time.Time // when it last exceeded a limit, in the last minutes; zero if it did not
}

// Default returns the limits of tenants that have none of their own.
func (l *Limiter) Default() Limits {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.config.Default
}

// Usage returns the usage of a tenant.
func (l *Limiter) Usage(tenant timer.TenantID) Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	limits, own := l.config.Tenants[tenant]
	if !own {
		limits = l.config.Default
	}
	u := Usage{TenantID: tenant, Limits: limits, Own: own}
	used, now, n := l.usages[tenant], l.clock.Now(), l.instances()
	if used == nil {
		used = new(usage)
	}
	left := func(b bucket, r Rate) float64 { // of a copy, so that reading changes nothing
		if r.PerSecond == 0 {
			return 0
		}
		b.fill(now, r.share(n))
		return b.tokens
	}
	u.Accept, u.Fire, u.Exceeded = left(used.accept, limits.Accept), left(used.fire, limits.Fire), used.exceeded
	return u
}

// Tenants returns at most limit tenants after one, in order: the tenants with limits of their
// own, and the tenants that were active in the last minutes.
func (l *Limiter) Tenants(after timer.TenantID, limit int) []timer.TenantID {
	l.mu.Lock()
	defer l.mu.Unlock()
	tenants := slices.AppendSeq(slices.Collect(maps.Keys(l.config.Tenants)), maps.Keys(l.usages))
	slices.Sort(tenants)
	tenants = slices.Compact(tenants)
	first, found := slices.BinarySearch(tenants, after)
	if found {
		first++
	}
	return tenants[first:min(len(tenants), first+limit)]
}
