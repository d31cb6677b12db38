package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/store"
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
	err = r.rows(ctx, doing, text, append(args, time.UnixMilli(at).UTC(), place, int64(limit+1)), func(row store.Scanner) error {
		if len(page.Entries) == limit {
			page.Next = fmt.Sprintf(form, at, place.BlockNumber, place.OffsetNumber)
			return nil
		}
		e, err := store.ReadEntryAfter(row, &place)
		at = of(e).UnixMilli()
		page.Entries = append(page.Entries, e)
		return err
	})
	return page, err
}

// Overdue counts timers that were due before now.
func (r *Reader) Overdue(ctx context.Context, tenant timer.TenantID, now time.Time) (o timer.Overdue, err error) {
	text, args := sqlOverdue.Of(tenant, timer.RoundDown(now), int64(timer.MaxOverdue))
	err = r.rows(ctx, "count what is overdue", text, args, scan(&o.Timers, (*store.Time)(&o.Oldest)))
	return o, err
}

// Upcoming counts timers by when they are due.
func (r *Reader) Upcoming(ctx context.Context, tenant timer.TenantID, from time.Time, width time.Duration, n int) ([]int64, error) {
	if err := timer.CheckIntervals(width, n); err != nil {
		return nil, err
	}
	text, args := sqlUpcoming.Of(tenant, timer.RoundUp(from), (width + time.Millisecond - 1).Milliseconds(), int64(n), int64(timer.MaxUpcoming))
	counts := make([]int64, n)
	err := r.rows(ctx, "count what is coming", text, args, func(row store.Scanner) error {
		var number, due int64
		err := row.Scan(&number, &due)
		counts[number] = due
		return err
	})
	return counts, err
}

// Delivery returns where an event is in the outbox.
func (r *Reader) Delivery(ctx context.Context, eventID string) (found timer.Delivery, err error) {
	err = r.rows(ctx, "find an event", sqlDelivery, []any{eventID, int64(timer.DeliveryWalk)}, store.ReadDelivery(&found))
	return found, err
}

// Parked returns a page of parked events.
func (r *Reader) Parked(ctx context.Context, tenant timer.TenantID, before int64, limit int) (events []timer.ParkedEvent, err error) {
	text, args := sqlParked.Of(tenant, store.Newest(before), int64(timer.PageSize(limit)))
	err = r.rows(ctx, "list parked events", text, args, store.Collect(&events, store.ReadParked))
	return events, err
}

// RetryParked moves parked events into the shard of the outbox to which this store appends.
func (s *Store) RetryParked(ctx context.Context, now time.Time, seqs ...int64) (retried int, err error) {
	if len(seqs) == 0 {
		return 0, nil
	}
	err = s.writing(ctx, "retry parked events", func(ctx context.Context, t *transaction) error {
		return t.rows(ctx, sqlRetryParked, []any{seqs, timer.RoundDown(now), s.shard.Load()}, scan(&retried))
	})
	if err != nil {
		return 0, err
	}
	return retried, nil
}

// DiscardParked deletes parked events.
func (s *Store) DiscardParked(ctx context.Context, seqs ...int64) (discarded int, err error) {
	if len(seqs) == 0 {
		return 0, nil
	}
	return s.deleting(ctx, "discard parked events", sqlDiscardParked, seqs)
}

// Purge skips timers that another transaction is changing, such as the purge of another
// instance.
func (s *Store) Purge(ctx context.Context, before time.Time, limit int) (deleted int, err error) {
	return s.deleting(ctx, "purge", sqlPurge, timer.RoundDown(before), int64(limit))
}

// deleting runs a statement in a transaction, and returns how many rows it deleted.
func (s *Store) deleting(ctx context.Context, doing, text string, args ...any) (deleted int, err error) {
	err = s.writing(ctx, doing, func(_ context.Context, t *transaction) error {
		t.later(step{text: text, args: args, done: func(tag pgconn.CommandTag) {
			deleted = int(tag.RowsAffected())
			failpoint.Here("purging")
		}})
		return nil
	})
	if err != nil {
		return 0, err
	}
	return deleted, nil
}

// Forget deletes the parked events of a tenant, in as many transactions as that takes, and
// then its timers in one transaction.
func (s *Store) Forget(ctx context.Context, tenant timer.TenantID, limit int) (c timer.Counts, err error) {
	const doing = "forget a tenant"
	if limit <= 0 {
		return c, nil
	}
	for deleted := limit; deleted == limit; {
		if deleted, err = s.deleting(ctx, doing, sqlForgetParked, string(tenant), int64(limit)); err != nil {
			return c, err
		}
	}
	err = s.writing(ctx, doing, func(ctx context.Context, t *transaction) error {
		return t.rows(ctx, sqlForget, []any{string(tenant), int64(limit)}, scan(&c.Scheduled, &c.Reached, &c.Expired, &c.Canceled))
	})
	if err != nil {
		return timer.Counts{}, err
	}
	return c, nil
}

// Firing returns the pauses that the database keeps.
func (r *Reader) Firing(ctx context.Context, now time.Time) (timer.Pauses, error) {
	pauses := make(timer.Pauses)
	err := r.seek(ctx, "read whether firing is paused", sqlFiring, []any{now}, store.ReadPauses(pauses))
	return pauses, err
}

// PauseFiring stores a pause.
func (s *Store) PauseFiring(ctx context.Context, p timer.Pause) error {
	p, err := p.Kept()
	if err != nil {
		return err
	}
	var until *time.Time
	if !p.Until.IsZero() {
		until = &p.Until
	}
	return s.writing(ctx, "pause firing", func(_ context.Context, t *transaction) error {
		t.later(step{text: sqlPause, args: []any{string(p.TenantID), p.Since, until, p.By}})
		return nil
	})
}

// ResumeFiring ends a pause.
func (s *Store) ResumeFiring(ctx context.Context, tenant timer.TenantID) error {
	return s.writing(ctx, "resume firing", func(_ context.Context, t *transaction) error {
		t.later(step{text: sqlResume, args: []any{string(tenant)}})
		return nil
	})
}
