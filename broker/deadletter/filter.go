package deadletter

import (
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// A Filter says which letters are meant: those that fit all of its fields. The
// zero Filter means all letters of all tenants.
type Filter struct {
	Tenant  timer.TenantID // whose; "" for all, [timer.NoTenant] for those that name nobody
	IDs     []string       // any of these; none for all
	Reasons []timer.Reason // any of these; none for all
	Since   time.Time      // last became a dead letter then or later; zero for all. One without its time is older.
	Limit   int            // how many at most, oldest first; 0 for all
}

// fits reports whether a letter is meant.
func (f Filter) fits(l Letter) bool {
	return (f.Tenant == "" || f.Tenant == l.Tenant) &&
		(len(f.IDs) == 0 || slices.Contains(f.IDs, l.ID)) &&
		(len(f.Reasons) == 0 || slices.Contains(f.Reasons, l.Reason)) &&
		(f.Since.IsZero() || !l.LastAt.Before(f.Since))
}
