package sqlite

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// Parked returns a page of parked events.
func (r *Reader) Parked(ctx context.Context, tenant timer.TenantID, before int64, limit int) (events []timer.ParkedEvent, err error) {
	text, args := sqlParked.Of(tenant, store.Newest(before), timer.PageSize(limit))
	err = r.rows(ctx, "list parked events", func(rows *sql.Rows) error {
		var e timer.ParkedEvent
		var headers string
		var appended, parked int64
		if err := rows.Scan(&e.Seq, &e.ID, &e.Body, &headers, &appended, &parked, &e.Attempts, &e.Reason); err != nil {
			return err
		}
		e.AppendedAt, e.ParkedAt = time.UnixMilli(appended).UTC(), time.UnixMilli(parked).UTC()
		err := store.ParkedHeaders(&e, headers)
		events = append(events, e)
		return err
	}, text, args...)
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
