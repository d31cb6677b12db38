package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/outbox"
)

var _ outbox.Table = (*Store)(nil)

// Head returns the first rows of the outbox after a number.
func (s *Store) Head(ctx context.Context, after int64, limit int) (events []outbox.Row, err error) {
	rows, err := s.reads.QueryContext(ctx, sqlHead, after, limit)
	if err != nil {
		return nil, classify("read the outbox", err)
	}
	defer rows.Close()
	for rows.Next() {
		row := outbox.Row{Message: message.NewMessage("", nil)}
		var headers []byte
		if err := rows.Scan(&row.Seq, &row.Message.UUID, &row.Message.Payload, &headers, &row.Attempts); err != nil {
			return nil, classify("read the outbox", err)
		}
		if err := json.Unmarshal(headers, &row.Message.Metadata); err != nil {
			return nil, fmt.Errorf("read the headers of event %d in the outbox: %w", row.Seq, err)
		}
		events = append(events, row)
	}
	return events, classify("read the outbox", rows.Err())
}

// Delete removes rows from the outbox.
func (s *Store) Delete(ctx context.Context, seqs ...int64) error {
	return s.writing(ctx, "delete from the outbox", func(ctx context.Context, t *transaction) error {
		for len(seqs) > 0 {
			n := min(len(seqs), deleteRows)
			text := sqlDeleteChunk
			if n < deleteRows {
				text = repeatList(sqlDelete, n)
			}
			args := make([]any, n)
			for i, seq := range seqs[:n] {
				args[i] = seq
			}
			if _, err := t.ExecContext(ctx, text, args...); err != nil {
				return err
			}
			seqs = seqs[n:]
		}
		return nil
	})
}

// Fail counts an attempt of a row.
func (s *Store) Fail(ctx context.Context, seq int64, reason string) error {
	return s.writing(ctx, "count an attempt", func(ctx context.Context, t *transaction) error {
		_, err := t.ExecContext(ctx, sqlFail, seq, reason)
		return err
	})
}

// Park moves a row out of the outbox.
func (s *Store) Park(ctx context.Context, now time.Time, seq int64, reason string) error {
	return s.writing(ctx, "park an event", func(ctx context.Context, t *transaction) error {
		if _, err := t.ExecContext(ctx, sqlPark, seq, reason, now.UnixMilli()); err != nil {
			return err
		}
		_, err := t.ExecContext(ctx, sqlDelete, seq)
		return err
	})
}
