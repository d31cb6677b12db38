package sqlite

import (
	"context"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/outbox"
)

var _ outbox.Table = (*Store)(nil)

// Outbox returns the outbox, which this store has for itself.
func (s *Store) Outbox() outbox.Outbox { return outbox.Single(s) }

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
	const doing = "read the outbox"
	rows, err := s.poll(ctx, text, args...)
	if err != nil {
		return nil, classify(doing, err)
	}
	defer rows.Close()
	for rows.Next() {
		row := outbox.Row{Message: message.NewMessage("", nil)}
		m := row.Message
		var headers string
		if err := rows.Scan(&row.Seq, &m.UUID, (*[]byte)(&m.Payload), &headers, &row.Attempts, &row.Destination); err != nil {
			return nil, classify(doing, err)
		}
		if m.Metadata, row.Err = envelope.DecodeHeaders(headers); row.Err != nil {
			m.Metadata = message.Metadata{}
		}
		events = append(events, row)
	}
	return events, classify(doing, rows.Err())
}

// Delete removes rows from the outbox, with a statement for each run of numbers
// without gaps.
func (s *Store) Delete(ctx context.Context, seqs ...int64) error {
	if len(seqs) == 0 {
		return nil
	}
	seqs = slices.Sorted(slices.Values(seqs))
	return s.noting(ctx, "delete from the outbox", func(ctx context.Context, t *transaction) error {
		for len(seqs) > 0 {
			n := 1
			for n < len(seqs) && seqs[n] <= seqs[n-1]+1 {
				n++
			}
			if err := t.deleteEvents(ctx, seqs[0], seqs[n-1]); err != nil {
				return err
			}
			failpoint.Here("deleting")
			seqs = seqs[n:]
		}
		return nil
	})
}

// deleteEvents removes rows from wherever they are.
func (t *transaction) deleteEvents(ctx context.Context, first, last int64) error {
	deleted, err := t.change(ctx, sqlDelete, first, last)
	if err != nil {
		return err
	}
	if deleted <= last-first {
		deferred, err := t.change(ctx, sqlDeleteDeferred, first, last)
		if err != nil {
			return err
		}
		deleted += deferred
	}
	t.count(outboxCount).outbox -= deleted
	return nil
}

// Defer counts an attempt of rows and moves them behind the others.
func (s *Store) Defer(ctx context.Context, rows ...outbox.Deferral) error {
	if len(rows) == 0 {
		return nil
	}
	return s.noting(ctx, "defer events", func(ctx context.Context, t *transaction) error {
		for _, d := range rows {
			args := []any{d.Seq, d.Reason, d.Destination, d.RetryAt.UnixMilli(), d.Attempts()}
			changed, err := t.change(ctx, sqlDeferAgain, args...)
			if err == nil && changed == 0 {
				if _, err = t.ExecContext(ctx, sqlDefer, args...); err == nil {
					_, err = t.ExecContext(ctx, sqlDelete, d.Seq, d.Seq)
				}
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Park moves a row out of the outbox.
func (s *Store) Park(ctx context.Context, now time.Time, seq int64, reason string) error {
	return s.noting(ctx, "park an event", func(ctx context.Context, t *transaction) error {
		if _, err := t.ExecContext(ctx, sqlPark, seq, reason, now.UnixMilli()); err != nil {
			return err
		}
		return t.deleteEvents(ctx, seq, seq)
	})
}
