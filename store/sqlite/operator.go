package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// Due returns timers of all tenants by their due time. A page ends with the due time
// and the rowid of its last timer.
func (r *Reader) Due(ctx context.Context, before time.Time, after string, limit int) (page timer.DuePage, err error) {
	const doing = "list what is due"
	limit = timer.PageSize(limit)
	var due, rowid int64
	if after != "" {
		if n, _ := fmt.Sscanf(after, "%d-%d", &due, &rowid); n != 2 || fmt.Sprintf("%d-%d", due, rowid) != after {
			return page, timer.Invalid(timer.ReasonBadField, "%s does not end a page of this store", timer.Quote(after))
		}
	}
	rows, err := r.reads.QueryContext(ctx, sqlSoonest, timer.RoundUp(before).UnixMilli(), due, rowid, limit+1)
	if err != nil {
		return page, classify(doing, err)
	}
	defer rows.Close()
	for rows.Next() {
		if len(page.Entries) == limit {
			page.Next = fmt.Sprintf("%d-%d", due, rowid)
			break
		}
		e, err := scanEntry(rows, &rowid)
		if err != nil {
			return timer.DuePage{}, classify(doing, err)
		}
		due = e.DueAt.UnixMilli()
		page.Entries = append(page.Entries, e)
	}
	return page, classify(doing, rows.Err())
}

// Overdue counts timers that were due before now.
func (r *Reader) Overdue(ctx context.Context, tenant timer.TenantID, now time.Time) (o timer.Overdue, err error) {
	text, args := sqlOverdue, []any{timer.RoundDown(now).UnixMilli(), timer.MaxOverdue}
	if tenant != "" {
		text, args = sqlOverdueTenant, append(args, string(tenant))
	}
	var oldest sql.NullInt64
	err = r.reads.QueryRowContext(ctx, text, args...).Scan(&o.Timers, &oldest)
	o.Oldest = instant(oldest)
	return o, classify("count what is overdue", err)
}

// Upcoming counts timers by when they are due.
func (r *Reader) Upcoming(ctx context.Context, tenant timer.TenantID, from time.Time, width time.Duration, n int) (counts []int64, err error) {
	const doing = "count what is coming"
	if err := timer.CheckIntervals(width, n); err != nil {
		return nil, err
	}
	text, args := sqlUpcoming, []any{timer.RoundUp(from).UnixMilli(), (width + time.Millisecond - 1).Milliseconds(), n, timer.MaxUpcoming}
	if tenant != "" {
		text, args = sqlUpcomingTenant, append(args, string(tenant))
	}
	rows, err := r.reads.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, classify(doing, err)
	}
	defer rows.Close()
	counts = make([]int64, 0, n)
	for rows.Next() {
		var due int64
		if err := rows.Scan(&due); err != nil {
			return nil, classify(doing, err)
		}
		counts = append(counts, due)
	}
	return counts, classify(doing, rows.Err())
}

// Delivery returns where an event is.
func (r *Reader) Delivery(ctx context.Context, eventID string) (timer.Delivery, error) {
	const doing = "find an event"
	rows, err := r.reads.QueryContext(ctx, sqlDelivery, eventID, timer.DeliveryWalk)
	if err != nil {
		return timer.Delivery{}, classify(doing, err)
	}
	defer rows.Close()
	d := timer.Delivery{State: timer.Published}
	if rows.Next() { // the event itself, if it was found
		var since, retry sql.NullInt64
		if err := rows.Scan((*string)(&d.State), &since, &d.Attempts, &d.Reason, &d.Destination, &retry); err != nil {
			return timer.Delivery{}, classify(doing, err)
		}
		d.Since, d.RetryAt = instant(since), instant(retry)
	}
	return d, classify(doing, rows.Err())
}
