package sqlite

import (
	"database/sql"
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// values returns the columns of a timer as arguments, in the order of [store.Columns].
func values(r *store.Row) []any {
	return []any{
		string(r.TenantID), string(r.ServiceCallID), r.CommandAt, r.CommandID, string(r.State), r.RegisteredAt,
		orNull(r.DueAt), orNull(r.ExpiresAt), orNull(r.ReachedAt), orNull(r.CanceledAt),
		orNull(r.CorrelationID), orNull(r.TraceParent), orNull(r.TraceState), orNull(r.Data),
	}
}

// scanEntry reads a timer, in the order of [store.Columns], after other columns.
func scanEntry(rows *sql.Rows, before ...any) (e timer.Entry, err error) {
	var due, expires, reached, canceled sql.NullInt64
	var registered int64
	err = rows.Scan(append(before,
		(*string)(&e.TenantID), (*string)(&e.ServiceCallID), &e.TimestampMS, &e.CommandID, (*string)(&e.State), &registered,
		&due, &expires, &reached, &canceled,
		(*nullable)(&e.CorrelationID), (*nullable)(&e.Trace.Parent), (*nullable)(&e.Trace.State), (*nullable)(&e.Data))...)
	if err != nil {
		return e, fmt.Errorf("read a timer: %w", err)
	}
	e.DueAt, e.ExpiresAt, e.ReachedAt, e.CanceledAt = instant(due), instant(expires), instant(reached), instant(canceled)
	e.RegisteredAt = time.UnixMilli(registered).UTC()
	return e, nil
}
