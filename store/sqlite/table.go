package sqlite

import (
	"context"
	"time"

	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/store"
)

var _ outbox.Table = (*Store)(nil)

// Outbox returns the outbox, which this store has for itself.
func (s *Store) Outbox() outbox.Outbox { return outbox.Outbox{Taker: s, Table: s} }

// Head returns the first rows of the outbox after a number that are not deferred.
func (s *Store) Head(ctx context.Context, after int64, limit int) ([]outbox.Row, error) {
	return s.events(ctx, sqlHead, after, limit)
}

// Deferred returns deferred rows of the outbox that are due.
func (s *Store) Deferred(ctx context.Context, now time.Time, from string, limit, each int) ([]outbox.Row, error) {
	return s.events(ctx, sqlDeferred, now.UnixMilli(), from, limit, each)
}

// NextRetry returns when the next deferred row is due, after a time.
func (s *Store) NextRetry(ctx context.Context, after time.Time) (next time.Time, err error) {
	err = each(ctx, pollQuerier{s}, store.Scan((*store.Time)(&next)), sqlNextRetry, after.UnixMilli())
	return next, classify("find the next retry", err)
}

// events reads rows of the outbox, with a statement of [polling].
func (s *Store) events(ctx context.Context, text string, args ...any) (events []outbox.Row, err error) {
	err = each(ctx, pollQuerier{s}, func(row store.Scanner) error {
		event, err := outbox.ReadRow(row.Scan)
		events = append(events, event)
		return err
	}, text, args...)
	return events, classify("read the outbox", err)
}

// Delete removes rows from the outbox, with a statement for each run of numbers
// without gaps.
func (s *Store) Delete(ctx context.Context, rows ...outbox.Place) error {
	return s.writing(ctx, "delete from the outbox", func(ctx context.Context, t *transaction) error {
		for _, r := range outbox.Runs(rows) {
			if _, err := t.change(ctx, sqlDelete.On(r.Deferred), r.First, r.Last); err != nil {
				return err
			}
			failpoint.Here("deleting")
		}
		return nil
	})
}

// Defer counts an attempt of rows and moves them behind the others.
func (s *Store) Defer(ctx context.Context, rows ...outbox.Deferral) error {
	return s.writing(ctx, "defer events", func(ctx context.Context, t *transaction) error {
		for _, d := range rows {
			_, err := t.ExecContext(ctx, sqlDefer.On(d.Deferred), d.Seq, d.Reason, d.Destination, d.RetryAt.UnixMilli(), d.Attempts(), d.Unclaimed)
			if err == nil && !d.Deferred {
				_, err = t.ExecContext(ctx, sqlDelete.Head, d.Seq, d.Seq)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Claim moves unclaimed rows to the end of the outbox.
func (s *Store) Claim(ctx context.Context, prefix string, limit int) (claimed int, err error) {
	return s.counting(ctx, "claim events", func(ctx context.Context, t *transaction) (int64, error) {
		n, err := t.change(ctx, sqlClaim, prefix, outbox.Behind(prefix), limit)
		if err == nil {
			_, err = t.ExecContext(ctx, sqlClaimed, prefix, outbox.Behind(prefix), n)
		}
		return n, err
	})
}

// Hasten makes all deferred rows due now.
func (s *Store) Hasten(ctx context.Context, now time.Time) error {
	return store.InSteps(store.HastenRows, func() (int, error) {
		return s.change(ctx, "hasten events", sqlHasten, now, store.HastenRows)
	})
}

// Park moves a row out of the outbox.
func (s *Store) Park(ctx context.Context, now time.Time, row outbox.Place, reason string) error {
	return s.writing(ctx, "park an event", func(ctx context.Context, t *transaction) error {
		if _, err := t.ExecContext(ctx, sqlPark.On(row.Deferred), row.Seq, reason, now.UnixMilli()); err != nil {
			return err
		}
		_, err := t.change(ctx, sqlDelete.On(row.Deferred), row.Seq, row.Seq)
		return err
	})
}

// RetryParked moves parked events to the end of the outbox, in the order of their
// numbers.
func (s *Store) RetryParked(ctx context.Context, now time.Time, seqs ...int64) (retried int, err error) {
	return s.counting(ctx, "retry parked events", func(ctx context.Context, t *transaction) (int64, error) {
		parked := store.JSON(seqs)
		added, err := t.change(ctx, sqlRetryParked, parked, now.UnixMilli())
		t.count(outboxCount).outbox += added
		if err == nil {
			_, err = t.ExecContext(ctx, changes.DiscardParked, parked)
		}
		return added, err
	})
}
