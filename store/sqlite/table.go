package sqlite

import (
	"context"
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

var _ outbox.Table = (*Store)(nil)

// Outbox returns the outbox, which this store has for itself.
func (s *Store) Outbox() outbox.Outbox { return outbox.Single(s).With(s) }

// Head returns the first rows of the outbox after a number that are not deferred.
func (s *Store) Head(ctx context.Context, after int64, limit int) ([]outbox.Row, error) {
	return s.events(ctx, sqlHead, after, limit)
}

// Deferred returns deferred rows of the outbox that are due.
func (s *Store) Deferred(ctx context.Context, now time.Time, from string, limit, each int) ([]outbox.Row, error) {
	return s.events(ctx, sqlDeferred, now.UnixMilli(), from, limit, each)
}

// events reads rows of the outbox, with a statement of [polling].
func (s *Store) events(ctx context.Context, text string, args ...any) (events []outbox.Row, err error) {
	err = each(ctx, polled{s}, func(row store.Scanner) error {
		event, err := outbox.ReadRow(row.Scan)
		events = append(events, event)
		return err
	}, text, args...)
	return events, classify("read the outbox", err)
}

// Delete removes rows from the outbox, with a statement for each run of numbers
// without gaps.
func (s *Store) Delete(ctx context.Context, rows ...outbox.Place) error {
	if len(rows) == 0 {
		return nil
	}
	return s.noting(ctx, "delete from the outbox", func(ctx context.Context, t *transaction) error {
		for _, r := range outbox.Runs(rows) {
			if err := t.deleteEvents(ctx, r); err != nil {
				return err
			}
			failpoint.Here("deleting")
		}
		return nil
	})
}

// deleteEvents removes a run of rows.
func (t *transaction) deleteEvents(ctx context.Context, r outbox.Run) error {
	deleted, err := t.change(ctx, sqlDelete.On(r.Deferred), r.First, r.Last)
	t.count(outboxCount).outbox -= deleted
	return err
}

// Defer counts an attempt of rows and moves them behind the others.
func (s *Store) Defer(ctx context.Context, rows ...outbox.Deferral) error {
	if len(rows) == 0 {
		return nil
	}
	return s.noting(ctx, "defer events", func(ctx context.Context, t *transaction) error {
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
	err = s.writing(ctx, "claim events", func(ctx context.Context, t *transaction) error {
		n, err := t.change(ctx, sqlClaim, prefix, outbox.Behind(prefix), limit)
		if err == nil && n > 0 {
			_, err = t.ExecContext(ctx, sqlClaimed, prefix, outbox.Behind(prefix), n)
		}
		claimed = int(n)
		return err
	})
	if err != nil {
		return 0, err
	}
	return claimed, nil
}

// Unclaimed returns service calls whose events no handler wants.
func (r *Reader) Unclaimed(ctx context.Context, limit int) (calls []timer.ServiceCallID, err error) {
	err = r.rows(ctx, "find unclaimed events", store.Collect(&calls, store.ReadServiceCall), sqlUnclaimed, limit)
	return calls, err
}

// Hasten has all deferred rows due now.
func (s *Store) Hasten(ctx context.Context, now time.Time) error {
	return s.writing(ctx, "hasten events", func(ctx context.Context, t *transaction) error {
		_, err := t.ExecContext(ctx, sqlHasten, now.UnixMilli())
		return err
	})
}

// Park moves a row out of the outbox.
func (s *Store) Park(ctx context.Context, now time.Time, row outbox.Place, reason string) error {
	return s.noting(ctx, "park an event", func(ctx context.Context, t *transaction) error {
		if _, err := t.ExecContext(ctx, sqlPark.On(row.Deferred), row.Seq, reason, now.UnixMilli()); err != nil {
			return err
		}
		return t.deleteEvents(ctx, outbox.Runs([]outbox.Place{row})[0])
	})
}

// Parked returns a page of parked events.
func (r *Reader) Parked(ctx context.Context, tenant timer.TenantID, before int64, limit int) (events []timer.ParkedEvent, err error) {
	text, args := sqlParked.Of(tenant, store.Newest(before), timer.PageSize(limit))
	err = r.rows(ctx, "list parked events", store.Collect(&events, store.ReadParked), text, args...)
	return events, err
}

// RetryParked moves parked events to the end of the outbox, in the order of their
// numbers.
func (s *Store) RetryParked(ctx context.Context, now time.Time, seqs ...int64) (retried int, err error) {
	return s.eachParked(ctx, "retry parked events", seqs, func(ctx context.Context, t *transaction, seq int64) error {
		added, err := t.change(ctx, sqlRetryParked, seq, now.UnixMilli())
		t.count(outboxCount).outbox += added
		return err
	})
}

// DiscardParked deletes parked events.
func (s *Store) DiscardParked(ctx context.Context, seqs ...int64) (discarded int, err error) {
	return s.eachParked(ctx, "discard parked events", seqs, func(context.Context, *transaction, int64) error { return nil })
}

// eachParked calls fn for each number, and deletes the event that has it, all in one
// transaction.
func (s *Store) eachParked(ctx context.Context, doing string, seqs []int64, fn func(context.Context, *transaction, int64) error) (done int, err error) {
	if len(seqs) == 0 {
		return 0, nil
	}
	err = s.writing(ctx, doing, func(ctx context.Context, t *transaction) error {
		for _, seq := range slices.Sorted(slices.Values(seqs)) {
			if err := fn(ctx, t, seq); err != nil {
				return err
			}
			deleted, err := t.change(ctx, sqlDiscardParked, seq)
			if err != nil {
				return err
			}
			done += int(deleted)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return done, nil
}
