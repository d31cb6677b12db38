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
	return r.walk(ctx, "list due timers", f, time.UnixMilli(0), func(e timer.Entry) time.Time { return e.DueAt }, sqlSoonest, timer.RoundUp(f.DueBefore))
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
	err = r.Rows(ctx, doing, text, append(args, time.UnixMilli(at).UTC(), place, int64(limit+1)), func(row store.Scanner) error {
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

// RetryParked moves parked events into the shard of the outbox to which this store appends.
func (s *Store) RetryParked(ctx context.Context, now time.Time, seqs ...int64) (retried int, err error) {
	err = s.write(ctx, "retry parked events", sqlRetryParked, []any{seqs, timer.RoundDown(now), s.appending.Load()}, store.Scan(&retried))
	if err != nil {
		return 0, err
	}
	return retried, nil
}

// Purge skips timers that another transaction is changing, such as the purge of another
// instance.
func (s *Store) Purge(ctx context.Context, before time.Time, limit int) (deleted int, err error) {
	return s.change(ctx, "purge", sqlPurge, timer.RoundDown(before), limit)
}

// change runs a statement in a transaction, and returns how many rows it changed.
func (s *Store) change(ctx context.Context, doing, text string, args ...any) (changed int, err error) {
	err = s.writing(ctx, doing, func(_ context.Context, t *transaction) error {
		t.later(step{text: text, args: nullable(args), done: func(tag pgconn.CommandTag) {
			changed = int(tag.RowsAffected())
			failpoint.Here("purging")
		}})
		return nil
	})
	if err != nil {
		return 0, err
	}
	return changed, nil
}

// write runs a statement in a transaction, and calls fn for each row.
func (s *Store) write(ctx context.Context, doing, text string, args []any, fn func(store.Scanner) error) error {
	return s.writing(ctx, doing, func(ctx context.Context, t *transaction) error { return t.rows(ctx, text, nullable(args), fn) })
}

// runTogether runs statements in one transaction.
func (s *Store) runTogether(ctx context.Context, doing string, fn func(run func(text string, args ...any) (int64, error)) error) error {
	return s.writing(ctx, doing, func(ctx context.Context, t *transaction) error {
		return fn(func(text string, args ...any) (changed int64, err error) {
			err = t.now(ctx, step{text: text, args: nullable(args), done: func(tag pgconn.CommandTag) { changed = tag.RowsAffected() }})
			return changed, err
		})
	})
}
