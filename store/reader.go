package store

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// A Reader answers the questions of a [timer.Reader] that one statement answers. A database
// embeds it and adds the others.
type Reader struct {
	SQL Statements

	// Rows runs a statement and calls each for the rows that it returns. Its error says what
	// was being done. Arguments are texts, numbers and times; a zero time is null.
	Rows func(ctx context.Context, doing, text string, args []any, each func(Scanner) error) error
}

// Statements are the statements of a [Reader], in the words of a database.
type Statements struct {
	Get, Correlated, Delivery, Unclaimed, Firing, Counts, Stats, Failing, TenantCounts, Known, Unpublished, RegisteredBefore, Waiting string

	Overdue, Parked, Upcoming Question
}

// StatementsOf returns the statements that a database has, by their names.
func StatementsOf(query func(name string) string) Statements {
	both := func(name string) Question { return Question{query(name), query(name + "_tenant")} }
	return Statements{
		Get: query("get"), Correlated: query("correlated"), Delivery: query("delivery"), Unclaimed: query("unclaimed"), Firing: query("firing"),
		Counts: query("counts"), Stats: query("stats"), Failing: query("failing"), TenantCounts: query("tenant_counts"), Known: query("known"), Unpublished: query("unpublished"),
		RegisteredBefore: query("registered_before"), Waiting: query("inbox_waiting"),
		Overdue: both("overdue"), Parked: both("parked"), Upcoming: both("upcoming"),
	}
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

// Get returns the timer, or [timer.ErrNotFound].
func (r *Reader) Get(ctx context.Context, key timer.Key) (timer.Entry, error) {
	entries, err := r.Entries(ctx, "get "+key.String(), r.SQL.Get, string(key.TenantID), string(key.ServiceCallID))
	switch {
	case err != nil:
		return timer.Entry{}, err
	case len(entries) == 0:
		return timer.Entry{}, fmt.Errorf("%s: %w", key, timer.ErrNotFound)
	}
	return entries[0], nil
}

// Entries returns the timers that a statement returns.
func (r *Reader) Entries(ctx context.Context, doing, text string, args ...any) (entries []timer.Entry, err error) {
	err = r.Rows(ctx, doing, text, args, Collect(&entries, ReadEntry))
	return entries, err
}

// A Lister returns a page of timers.
type Lister func(context.Context, timer.Filter) (timer.Page, error)

// ListBy answers a filter with the list that it asks for, see [timer.Reader].
func (r *Reader) ListBy(ctx context.Context, f timer.Filter, ofTenant, soonest, over Lister) (timer.Page, error) {
	if err := f.Validate(); err != nil {
		return timer.Page{}, err
	}
	switch {
	case f.TenantID != "":
		return ofTenant(ctx, f)
	case f.CorrelationID != "":
		entries, err := r.Entries(ctx, "find by correlation id", r.SQL.Correlated, f.CorrelationID, timer.PageSize(f.Limit))
		return timer.Page{Entries: entries}, err
	case !f.OverFrom.IsZero():
		return over(ctx, f)
	}
	return soonest(ctx, f)
}

// Overdue counts timers that were due before now.
func (r *Reader) Overdue(ctx context.Context, tenant timer.TenantID, now time.Time) (o timer.Overdue, err error) {
	text, args := r.SQL.Overdue.Of(tenant, timer.RoundDown(now), timer.MaxOverdue)
	err = r.Rows(ctx, "count overdue timers", text, args, Scan(&o.Timers, (*Time)(&o.Oldest)))
	return o, err
}

// Upcoming counts timers by when they are due.
func (r *Reader) Upcoming(ctx context.Context, tenant timer.TenantID, from time.Time, width time.Duration, n, limit int) ([]int64, error) {
	if err := timer.CheckIntervals(width, n); err != nil {
		return nil, err
	}
	text, args := r.SQL.Upcoming.Of(tenant, timer.RoundUp(from), (width + time.Millisecond - 1).Milliseconds(), n, limit)
	counts := make([]int64, n)
	err := r.Rows(ctx, "count upcoming timers", text, args, func(row Scanner) error {
		var number, due int64
		err := row.Scan(&number, &due)
		counts[number] = due
		return err
	})
	return counts, err
}

// Delivery returns where an event is.
func (r *Reader) Delivery(ctx context.Context, eventID string) (found timer.Delivery, err error) {
	err = r.Rows(ctx, "find an event", r.SQL.Delivery, []any{eventID, timer.DeliveryWalk}, readDelivery(&found))
	return found, err
}

// Parked returns a page of parked events.
func (r *Reader) Parked(ctx context.Context, tenant timer.TenantID, before int64, limit int) (events []timer.ParkedEvent, err error) {
	if before == 0 {
		before = math.MaxInt64
	}
	text, args := r.SQL.Parked.Of(tenant, before, timer.PageSize(limit))
	err = r.Rows(ctx, "list parked events", text, args, Collect(&events, readParked))
	return events, err
}

// Unclaimed returns service calls of events that have no handler.
func (r *Reader) Unclaimed(ctx context.Context, limit int) (calls []timer.ServiceCallID, err error) {
	err = r.Rows(ctx, "find unclaimed events", r.SQL.Unclaimed, []any{limit}, Collect(&calls, readServiceCall))
	return calls, err
}

// Failing returns destinations to which events could not be sent.
func (r *Reader) Failing(ctx context.Context) (all []timer.FailingDestination, err error) {
	err = r.Rows(ctx, "find destinations that fail", r.SQL.Failing, []any{timer.MaxDestinations, timer.MaxFailing}, func(row Scanner) error {
		return readFailing(row, &all)
	})
	return all, err
}

// Firing returns the pauses that the database keeps.
func (r *Reader) Firing(ctx context.Context, now time.Time) (timer.Pauses, error) {
	pauses := make(timer.Pauses)
	err := r.Rows(ctx, "read whether firing is paused", r.SQL.Firing, []any{now}, readPauses(pauses))
	return pauses, err
}

// Stats returns the counts of a tenant, or adds up those of all.
func (r *Reader) Stats(ctx context.Context, tenant timer.TenantID) (st timer.Stats, err error) {
	if tenant == "" {
		err = r.Rows(ctx, "read the counts", r.SQL.Stats, nil, readStats(&st))
	} else {
		err = r.Rows(ctx, "read the counts of "+string(tenant), r.SQL.Counts, []any{string(tenant)}, Scan(&st.Scheduled, &st.Reached, &st.Expired, &st.Canceled))
	}
	return st, err
}

// Tenants returns the counts of tenants, in order.
func (r *Reader) Tenants(ctx context.Context, after timer.TenantID, limit int) (tenants []timer.TenantCounts, err error) {
	err = r.Rows(ctx, "read the counts of tenants", r.SQL.TenantCounts, []any{string(after), timer.PageSize(limit)}, Collect(&tenants, readTenantCounts))
	return tenants, err
}

// RegisteredBefore counts the timers that wait whose command is older than a time, by its
// producer's clock. It reads a limited number of rows, and may take long: give it a deadline.
func (r *Reader) RegisteredBefore(ctx context.Context, before time.Time, limit int) (u timer.Unprotected, err error) {
	var rows int
	err = r.Rows(ctx, "count timers by their age", r.SQL.RegisteredBefore, []any{before.UnixMilli(), limit}, Scan(&rows, &u.Timers, (*Time)(&u.Oldest)))
	u.Before, u.More = before.UTC(), rows == limit
	return u, err
}

// Known returns the numbers that the database has of the broker's logs.
func (r *Reader) Known(ctx context.Context) (k timer.Known, err error) {
	err = r.Rows(ctx, "read the numbers", r.SQL.Known, nil, readKnown(&k))
	return k, err
}

// Unpublished returns when the oldest event was appended that is not deferred.
func (r *Reader) Unpublished(ctx context.Context) (oldest time.Time, err error) {
	err = r.Rows(ctx, "read the outbox", r.SQL.Unpublished, nil, func(row Scanner) error { return row.Scan((*Time)(&oldest)) })
	return oldest, err
}

// Between returns the bounds of the service calls that a filter matches: each of them is
// greater than after and less than before. The bounds use the character DEL, which no service
// call has, and which is greater than all characters that a service call may have.
func Between(f timer.Filter) (after, before string) {
	const del = "\x7f"
	if last := len(f.Prefix) - 1; last >= 0 {
		after = f.Prefix[:last] + string(f.Prefix[last]-1) + del
	}
	return max(f.After, after), f.Prefix + del
}
