package store

import (
	"context"
	"fmt"
	"math"

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

// List answers a filter with the list that it asks for, see [timer.Reader].
func List(ctx context.Context, f timer.Filter, ofTenant, correlated, soonest, over func(context.Context, timer.Filter) (timer.Page, error)) (timer.Page, error) {
	if err := f.Validate(); err != nil {
		return timer.Page{}, err
	}
	switch {
	case f.TenantID != "":
		return ofTenant(ctx, f)
	case f.CorrelationID != "":
		return correlated(ctx, f)
	case !f.OverFrom.IsZero():
		return over(ctx, f)
	}
	return soonest(ctx, f)
}

// Between returns the bounds of the service calls that a filter matches: they come after
// the one and before the other. No service call has the character DEL, and all that it may
// have come before that.
func Between(f timer.Filter) (after, before string) {
	const del = "\x7f"
	if last := len(f.Prefix) - 1; last >= 0 {
		after = f.Prefix[:last] + string(f.Prefix[last]-1) + del
	}
	return max(f.After, after), f.Prefix + del
}

// Newest returns the number before which all parked events are that are asked for.
func Newest(before int64) int64 {
	if before == 0 {
		return math.MaxInt64
	}
	return before
}

// A Question has two statements that ask the same: about all tenants, and about one.
type Question struct{ All, Tenant string }

// Of returns the statement for a tenant, or for all if that is empty, and its arguments,
// of which the tenant is the last.
func (q Question) Of(tenant timer.TenantID, args ...any) (text string, _ []any) {
	if tenant == "" {
		return q.All, args
	}
	return q.Tenant, append(args, string(tenant))
}
