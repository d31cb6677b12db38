package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/event-service-agent/timer-service/timer"
)

// soonest returns a page of the timers of all tenants that are due before a time.
func (r *Reader) soonest(ctx context.Context, f timer.Filter) (timer.Page, error) {
	return r.walk(ctx, "list what is due", f, time.UnixMilli(0), func(e timer.Entry) time.Time { return e.DueAt }, sqlSoonest, timer.RoundUp(f.DueBefore))
}

// over returns a page of the timers of all tenants that have finished since a time.
func (r *Reader) over(ctx context.Context, f timer.Filter) (timer.Page, error) {
	return r.walk(ctx, "list timers that are over", f, timer.RoundUp(f.OverFrom), timer.Entry.OverAt, sqlOverFrom)
}

// walk returns a page of the timers of all tenants in the order of one of their times, from
// one time on. The page ends with the time and the place (ctid) of its last timer. The
// statement gets these two, of the page before, and the limit as its last arguments.
func (r *Reader) walk(
	ctx context.Context, doing string, f timer.Filter, from time.Time, of func(timer.Entry) time.Time, text string, args ...any,
) (page timer.Page, err error) {
	const form = "%d-%d-%d"
	limit := timer.PageSize(f.Limit)
	at := from.UnixMilli()
	place := pgtype.TID{Valid: true}
	if f.After != "" {
		if n, _ := fmt.Sscanf(f.After, form, &at, &place.BlockNumber, &place.OffsetNumber); n != 3 ||
			fmt.Sprintf(form, at, place.BlockNumber, place.OffsetNumber) != f.After {
			return page, timer.Invalid(timer.ReasonBadField, "%s does not end a page of this store", timer.Quote(f.After))
		}
	}
	err = r.rows(ctx, doing, text, append(args, time.UnixMilli(at).UTC(), place, int64(limit+1)), func(rows pgx.Rows) error {
		if len(page.Entries) == limit {
			page.Next = fmt.Sprintf(form, at, place.BlockNumber, place.OffsetNumber)
			return nil
		}
		e, err := scanEntry(rows, &place)
		at = of(e).UnixMilli()
		page.Entries = append(page.Entries, e)
		return err
	})
	return page, err
}

// Overdue counts timers that were due before now.
func (r *Reader) Overdue(ctx context.Context, tenant timer.TenantID, now time.Time) (o timer.Overdue, err error) {
	text, args := sqlOverdue.Of(tenant, timer.RoundDown(now), int64(timer.MaxOverdue))
	var oldest *time.Time
	err = r.rows(ctx, "count what is overdue", text, args, scan(&o.Timers, &oldest))
	o.Oldest = instant(oldest)
	return o, err
}

// Upcoming counts timers by when they are due.
func (r *Reader) Upcoming(ctx context.Context, tenant timer.TenantID, from time.Time, width time.Duration, n int) ([]int64, error) {
	if err := timer.CheckIntervals(width, n); err != nil {
		return nil, err
	}
	text, args := sqlUpcoming.Of(tenant, timer.RoundUp(from), (width + time.Millisecond - 1).Milliseconds(), int64(n), int64(timer.MaxUpcoming))
	counts := make([]int64, n)
	err := r.rows(ctx, "count what is coming", text, args, func(rows pgx.Rows) error {
		var number, due int64
		err := rows.Scan(&number, &due)
		counts[number] = due
		return err
	})
	return counts, err
}

// Delivery returns where an event is in the outbox.
func (r *Reader) Delivery(ctx context.Context, eventID string) (timer.Delivery, error) {
	found := timer.Delivery{State: timer.Published}
	err := r.rows(ctx, "find an event", sqlDelivery, []any{eventID, int64(timer.DeliveryWalk)}, func(rows pgx.Rows) error {
		var d timer.Delivery
		var since, retry *time.Time
		err := rows.Scan((*string)(&d.State), &since, &d.Attempts, &d.Reason, &d.Destination, &retry)
		d.Since, d.RetryAt = instant(since), instant(retry)
		// The first row is the event itself, and a later one only says that there are more.
		if found.State == timer.Published {
			found = d
		}
		return err
	})
	return found, err
}
