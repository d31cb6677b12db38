package deadletter

import (
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// A Filter selects the dead letters that fit all of its fields. The zero Filter selects
// all dead letters of all tenants.
type Filter struct {
	Tenant      timer.TenantID // tenant; "" for all, [timer.NoTenant] for dead letters that name none
	IDs         []string       // one of these ids, or of [Message.Ref]; empty for all
	Reasons     []timer.Reason // one of these reasons; empty for all
	Correlation string         // correlation id; empty for all
	// Since selects messages that last became dead letters then or later; zero selects all.
	// A message without that time counts as older.
	Since time.Time
	// Until leaves out messages that became dead letters again later, such as those of commands that
	// were replayed meanwhile; zero leaves out none.
	Until time.Time
	Limit int    // most dead letters, oldest first; 0 for all
	Bytes int    // most bytes of all their bodies, of which the first one may have more; 0 for any number
	After string // only those behind this one: Next of a [Summary], [Message.Ref] or an id; empty for all
}

// Fits reports whether a dead letter is selected.
func (f Filter) Fits(m Message) bool {
	return (f.Tenant == "" || f.Tenant == m.Tenant) &&
		(len(f.IDs) == 0 || slices.Contains(f.IDs, m.ID)) &&
		(len(f.Reasons) == 0 || slices.Contains(f.Reasons, m.Reason)) &&
		(f.Correlation == "" || f.Correlation == m.CorrelationID) &&
		(f.Since.IsZero() || !m.LastAt.Before(f.Since)) &&
		(f.Until.IsZero() || !m.LastAt.After(f.Until))
}
