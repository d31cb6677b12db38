package postgres

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/event-service-agent/timer-service/timer"
)

// scanEntry reads a timer, in the order of [store.Columns], after other columns. A row of an
// outer join that has no timer becomes the zero Entry.
func scanEntry(rows pgx.Rows, before ...any) (e timer.Entry, err error) {
	var registered, due, expires, reached, canceled *time.Time
	var commandAt *int64
	err = rows.Scan(append(before,
		(*nullable)(&e.TenantID), (*nullable)(&e.ServiceCallID), &commandAt, (*nullable)(&e.CommandID), (*nullable)(&e.State), &registered,
		&due, &expires, &reached, &canceled,
		(*nullable)(&e.CorrelationID), (*nullable)(&e.Trace.Parent), (*nullable)(&e.Trace.State), (*nullable)(&e.Data))...)
	if err != nil {
		return e, fmt.Errorf("read a timer: %w", err)
	}
	if commandAt != nil {
		e.TimestampMS = *commandAt
	}
	e.RegisteredAt, e.DueAt, e.ExpiresAt = instant(registered), instant(due), instant(expires)
	e.ReachedAt, e.CanceledAt = instant(reached), instant(canceled)
	return e, nil
}
