package deadletter

import (
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// A Filter selects dead letters: those that fit all of its fields. The zero Filter
// selects all dead letters of all tenants.
type Filter struct {
	Tenant      timer.TenantID // whose; "" for all, [timer.NoTenant] for those that name none
	IDs         []string       // any of these; none for all
	Reasons     []timer.Reason // any of these; none for all
	Correlation string         // only with this correlation id; any if empty
	Since       time.Time      // last became a dead letter then or later; zero for all. One without its time is older.
	Limit       int            // how many at most, oldest first; 0 for all
}

// Fits reports whether a dead letter is selected.
func (f Filter) Fits(m Message) bool {
	return (f.Tenant == "" || f.Tenant == m.Tenant) &&
		(len(f.IDs) == 0 || slices.Contains(f.IDs, m.ID)) &&
		(len(f.Reasons) == 0 || slices.Contains(f.Reasons, m.Reason)) &&
		(f.Correlation == "" || f.Correlation == m.CorrelationID) &&
		(f.Since.IsZero() || !m.LastAt.Before(f.Since))
}
