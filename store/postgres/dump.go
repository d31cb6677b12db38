package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/store"
)

// Dump yields all that the store holds, in one read transaction: writers go on
// meanwhile, but what they leave behind can't be vacuumed. The events of all
// shards come as one outbox, one shard after the other.
func (r *Reader) Dump(ctx context.Context, yield func(store.Record) error) error {
	return classify("dump", withConn(ctx, r.db, func(ctx context.Context, c *pgx.Conn) error {
		defer rollBack(ctx, c) // it only read
		if _, err := c.Exec(ctx, sqlDumpBegin); err != nil {
			return err
		}
		err := each(ctx, c, sqlDumpTimers, func(rows pgx.Rows) error {
			e, err := scanEntry(rows)
			if err != nil {
				return err
			}
			return yield(store.Record{Kind: store.KindTimer, Timer: e})
		})
		if err != nil {
			return err
		}
		for _, part := range []struct {
			text string
			kind store.Kind
		}{{sqlDumpOutbox, store.KindOutbox}, {sqlDumpParked, store.KindParked}} {
			err := each(ctx, c, part.text, func(rows pgx.Rows) error {
				e, err := scanEvent(rows)
				if err != nil {
					return err
				}
				return yield(store.Record{Kind: part.kind, Event: e})
			})
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

// each runs a statement and calls fn for each row, as they come. If fn fails, the
// connection ends with it: a caller that gives up must not read millions of rows first.
func each(ctx context.Context, c *pgx.Conn, text string, fn func(pgx.Rows) error) error {
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	return send(ctx, c, step{text: text, each: func(rows pgx.Rows) error {
		err := fn(rows)
		if err != nil {
			giveUp()
		}
		return err
	}})
}

func scanEvent(rows pgx.Rows) (e store.Event, err error) {
	var headers string
	var lastError *string
	var parked *time.Time
	if err := rows.Scan(&e.ID, &e.Body, &headers, &e.AppendedAt, &e.Attempts, &lastError, &parked); err != nil {
		return e, fmt.Errorf("read an event: %w", err)
	}
	if e.Headers, err = envelope.DecodeHeaders(headers); err != nil {
		return e, fmt.Errorf("event %s: %w", e.ID, err)
	}
	e.AppendedAt, e.ParkedAt, e.LastError = e.AppendedAt.UTC(), instant(parked), textOf(lastError)
	return e, nil
}

// Running returns how many instances run on the database: each owns a shard of the
// outbox. One that has just started, or that is stopped, is not counted.
func (r *Reader) Running(ctx context.Context) (n int, err error) {
	err = r.rows(ctx, "count instances", sqlInstances, nil, scan(&n))
	return n, err
}
