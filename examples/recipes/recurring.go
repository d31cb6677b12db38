// Package recipes has patterns over timers that fire once: what recurs, and what is put off.
// README.md says more.
package recipes

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/timer"
)

// Reports makes a report of a tenant each day, at the same time. Each day has a timer of its
// own, since a timer that has fired is final: report.1, report.2, and so on.
type Reports struct {
	timers *app.Timers
	period time.Duration
}

const reports = "report."

// NewReports returns reports that recur, and handles their timers. It is called before the
// start of the app.
func NewReports(timers *app.Timers, period time.Duration) *Reports {
	r := &Reports{timers: timers, period: period}
	timers.OnDueTx(reports, r.due, app.OnDueOptions{})
	return r
}

// Begin schedules the first report of a tenant. To begin twice moves the first one.
func (r *Reports) Begin(ctx context.Context, tenant timer.TenantID, first time.Time) error {
	return r.timers.Schedule(ctx, client.Timer{TenantID: tenant, ServiceCallID: reports + "1", DueAt: first})
}

// End cancels the waiting timers of a tenant.
func (r *Reports) End(ctx context.Context, tenant timer.TenantID) error {
	_, err := r.timers.CancelWhere(ctx, tenant, timer.Selection{Prefix: reports})
	return err
}

// due writes a report and schedules the next one in the same transaction: whatever happens
// to the process, no report is left out, none is made twice, and the chain does not break.
func (r *Reports) due(ctx context.Context, tx *sql.Tx, e timer.DueTimeReached) error {
	number, err := strconv.Atoi(strings.TrimPrefix(string(e.ServiceCallID), reports))
	if err != nil {
		return fmt.Errorf("%w: %w", timer.ErrInvalid, err) // no retry can help
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO reports (tenant_id, number, due_at) VALUES (?, ?, ?)`, e.TenantID, number, e.DueAt.UnixMilli()); err != nil {
		return err
	}
	next := e.DueAt.Add(r.period)
	if late := e.ReachedAt.Sub(e.DueAt); late > r.period { // after an outage it goes on with the next one, and makes none up
		next = next.Add(late.Truncate(r.period))
	}
	id := timer.ServiceCallID(reports + strconv.Itoa(number+1))
	return r.timers.ScheduleTx(ctx, tx, client.Timer{TenantID: e.TenantID, ServiceCallID: id, DueAt: next})
}
