package quota

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// A Usage has the limits of one tenant, and when it exceeded them on this instance.
type Usage struct {
	TenantID timer.TenantID
	Limits
	Own      bool      // the limits are the tenant's own, not the default
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
	_, own := l.config.Tenants[tenant]
	used := cmp.Or(l.usages[tenant], new(usage))
	return Usage{tenant, l.config.Of(tenant), own, used.exceeded}
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
