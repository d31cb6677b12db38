package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/store"
)

// Dump yields all that the store holds, in one read transaction: writers go on
// meanwhile, but their log can't be folded into the file.
func (r *Reader) Dump(ctx context.Context, yield func(store.Record) error) error {
	tx, err := r.reads.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return classify("dump", err)
	}
	defer func() { _ = tx.Rollback() }() // it only read
	if err := dumpTimers(ctx, tx, yield); err != nil {
		return classify("dump timers", err)
	}
	if err := dumpEvents(ctx, tx, sqlDumpOutbox, store.KindOutbox, yield); err != nil {
		return classify("dump the outbox", err)
	}
	return classify("dump parked events", dumpEvents(ctx, tx, sqlDumpParked, store.KindParked, yield))
}

func dumpTimers(ctx context.Context, tx *sql.Tx, yield func(store.Record) error) error {
	rows, err := tx.QueryContext(ctx, sqlDumpTimers)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		e, err := scanEntry(rows)
		if err != nil {
			return err
		}
		if err := yield(store.Record{Kind: store.KindTimer, Timer: e}); err != nil {
			return err
		}
	}
	return rows.Err()
}

func dumpEvents(ctx context.Context, tx *sql.Tx, text string, kind store.Kind, yield func(store.Record) error) error {
	rows, err := tx.QueryContext(ctx, text)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var e store.Event
		var headers string
		var seq, appended int64
		var lastError sql.NullString
		var parked sql.NullInt64
		if err := rows.Scan(&seq, &e.ID, &e.Body, &headers, &appended, &e.Attempts, &lastError, &parked); err != nil {
			return fmt.Errorf("read an event: %w", err)
		}
		if e.Headers, err = envelope.DecodeHeaders(headers); err != nil {
			return fmt.Errorf("event %s: %w", e.ID, err)
		}
		e.AppendedAt, e.ParkedAt, e.LastError = time.UnixMilli(appended).UTC(), instant(parked), lastError.String
		if err := yield(store.Record{Kind: kind, Event: e}); err != nil {
			return err
		}
	}
	return rows.Err()
}
