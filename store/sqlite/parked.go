package sqlite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// Parked returns a page of parked events.
func (r *Reader) Parked(ctx context.Context, tenant timer.TenantID, after int64, limit int) (events []timer.ParkedEvent, err error) {
	const doing = "list parked events"
	text, args := sqlParked, []any{after, timer.PageSize(limit)}
	if tenant != "" {
		text, args = sqlParkedTenant, append(args, string(tenant))
	}
	rows, err := r.reads.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, classify(doing, err)
	}
	defer rows.Close()
	for rows.Next() {
		var e timer.ParkedEvent
		var headers string
		var appended, parked int64
		if err := rows.Scan(&e.Seq, &e.ID, &e.Body, &headers, &appended, &parked, &e.Attempts, &e.Reason); err != nil {
			return nil, classify(doing, err)
		}
		h, err := envelope.DecodeHeaders(headers)
		if err != nil {
			return nil, fmt.Errorf("%s: event %d: %w", doing, e.Seq, err)
		}
		e.TenantID, e.ServiceCallID = timer.TenantID(h[envelope.HeaderTenantID]), timer.ServiceCallID(h[envelope.HeaderServiceCallID])
		e.CorrelationID = h[envelope.HeaderCorrelationID]
		e.AppendedAt, e.ParkedAt = time.UnixMilli(appended).UTC(), time.UnixMilli(parked).UTC()
		events = append(events, e)
	}
	return events, classify(doing, rows.Err())
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
