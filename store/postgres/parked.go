package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// Parked returns a page of parked events.
func (r *Reader) Parked(ctx context.Context, tenant timer.TenantID, before int64, limit int) (events []timer.ParkedEvent, err error) {
	text, args := sqlParked.Of(tenant, store.Newest(before), int64(timer.PageSize(limit)))
	err = r.rows(ctx, "list parked events", text, args, func(rows pgx.Rows) error {
		var e timer.ParkedEvent
		var headers string
		if err := rows.Scan(&e.Seq, &e.ID, &e.Body, &headers, &e.AppendedAt, &e.ParkedAt, &e.Attempts, &e.Reason); err != nil {
			return err
		}
		e.AppendedAt, e.ParkedAt = e.AppendedAt.UTC(), e.ParkedAt.UTC()
		err := store.ParkedHeaders(&e, headers)
		events = append(events, e)
		return err
	})
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
