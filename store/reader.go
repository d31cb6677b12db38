package store

import (
	"fmt"

	"github.com/event-service-agent/timer-service/timer"
)

// Only returns the timer of a key, which is the only one that was read, or
// [timer.ErrNotFound].
func Only(key timer.Key, entries []timer.Entry, err error) (timer.Entry, error) {
	switch {
	case err != nil:
		return timer.Entry{}, err
	case len(entries) == 0:
		return timer.Entry{}, fmt.Errorf("%s: %w", key, timer.ErrNotFound)
	}
	return entries[0], nil
}

// A Question is a statement about all tenants, and the same about one.
type Question struct{ All, Tenant string }

// Of returns the statement for a tenant, or for all if that is empty, and its arguments,
// of which the tenant is the last.
func (q Question) Of(tenant timer.TenantID, args ...any) (text string, _ []any) {
	if tenant == "" {
		return q.All, args
	}
	return q.Tenant, append(args, string(tenant))
}
