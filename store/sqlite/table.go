package sqlite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/outbox"
)

var _ outbox.Table = (*Store)(nil)

// Head returns the first rows of the outbox after a number.
func (s *Store) Head(ctx context.Context, after int64, limit int) ([]outbox.Row, error) {
	if err := ctx.Err(); err != nil {
		return nil, classify("read the outbox", err)
	}
	rows, all := s.recent.take(after, limit)
	if all {
		return rows, nil
	}
	if n := len(rows); n > 0 {
		after = rows[n-1].Seq
	}
	return s.head(ctx, rows, after, limit-len(rows))
}

// head adds rows that it reads.
func (s *Store) head(ctx context.Context, events []outbox.Row, after int64, limit int) ([]outbox.Row, error) {
	rows, err := s.reads.QueryContext(ctx, sqlHead, after, limit)
	if err != nil {
		return nil, classify("read the outbox", err)
	}
	defer rows.Close()
	for rows.Next() {
		row := outbox.Row{Message: message.NewMessage("", nil)}
		m := row.Message
		var headers string
		if err := rows.Scan(&row.Seq, &m.UUID, (*[]byte)(&m.Payload), &headers, &row.Attempts); err != nil {
			return nil, classify("read the outbox", err)
		}
		if m.Metadata, err = envelope.DecodeHeaders(headers); err != nil {
			return nil, fmt.Errorf("read event %d in the outbox: %w", row.Seq, err)
		}
		events = append(events, row)
	}
	return events, classify("read the outbox", rows.Err())
}

// Delete removes rows from the outbox, with a statement for each run of numbers
// without gaps.
func (s *Store) Delete(ctx context.Context, seqs ...int64) error {
	if len(seqs) == 0 {
		return nil
	}
	seqs = slices.Sorted(slices.Values(seqs))
	defer s.recent.forget(seqs[len(seqs)-1])
	return s.writing(ctx, "delete from the outbox", func(ctx context.Context, t *transaction) error {
		for len(seqs) > 0 {
			n := 1
			for n < len(seqs) && seqs[n] <= seqs[n-1]+1 {
				n++
			}
			deleted, err := t.change(ctx, sqlDelete, seqs[0], seqs[n-1])
			if err != nil {
				return err
			}
			t.count(outboxCount).outbox -= deleted
			failpoint.Here("deleting")
			seqs = seqs[n:]
		}
		return nil
	})
}

// Fail counts an attempt of a row.
func (s *Store) Fail(ctx context.Context, seq int64, reason string) error {
	defer s.recent.forget(seq)
	return s.writing(ctx, "count an attempt", func(ctx context.Context, t *transaction) error {
		_, err := t.ExecContext(ctx, sqlFail, seq, reason)
		return err
	})
}

// Park moves a row out of the outbox.
func (s *Store) Park(ctx context.Context, now time.Time, seq int64, reason string) error {
	defer s.recent.forget(seq)
	return s.writing(ctx, "park an event", func(ctx context.Context, t *transaction) error {
		if _, err := t.ExecContext(ctx, sqlPark, seq, reason, now.UnixMilli()); err != nil {
			return err
		}
		deleted, err := t.change(ctx, sqlDelete, seq, seq)
		t.count(outboxCount).outbox -= deleted
		return err
	})
}
