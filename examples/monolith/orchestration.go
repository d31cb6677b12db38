package main

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/timer"
)

const createServiceCalls = `
CREATE TABLE IF NOT EXISTS service_calls (
	tenant_id       TEXT    NOT NULL,
	service_call_id TEXT    NOT NULL,
	url             TEXT    NOT NULL,
	correlation_id  TEXT    NOT NULL,
	due_at          INTEGER NOT NULL, -- Unix milliseconds, as done_at
	state           TEXT    NOT NULL DEFAULT 'Scheduled' CHECK (state IN ('Scheduled', 'Running', 'Succeeded', 'Failed', 'Canceled')),
	done_at         INTEGER,
	answer          TEXT,
	PRIMARY KEY (tenant_id, service_call_id)
) STRICT`

// A ServiceCall is an HTTP request that is made at a time.
type ServiceCall struct {
	timer.Key
	URL           string
	CorrelationID string // of the request that booked it
	DueAt         time.Time
}

// errNotScheduled says that a service call has started, or was canceled, or never was.
var errNotScheduled = errors.New("the service call is not scheduled")

// An Orchestration owns the service calls: it alone writes their table.
//
//	Book ──► Scheduled ──DueTimeReached──► Running ──► Succeeded or Failed
//	             └──Cancel──► Canceled
type Orchestration struct {
	timers *app.Timers
	bus    *Bus
}

// NewOrchestration returns an Orchestration that reacts to what executions tell.
func NewOrchestration(timers *app.Timers, bus *Bus) *Orchestration {
	o := &Orchestration{timers: timers, bus: bus}
	Subscribe(bus, func(ctx context.Context, e ExecutionSucceeded) error {
		return o.record(ctx, e.Key, "Succeeded", e.Answer)
	})
	Subscribe(bus, func(ctx context.Context, e ExecutionFailed) error { return o.record(ctx, e.Key, "Failed", e.Answer) })
	return o
}

// Book stores a service call and its timer, or neither.
func (o *Orchestration) Book(ctx context.Context, c ServiceCall) error {
	return o.timers.Tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `
			INSERT INTO service_calls (tenant_id, service_call_id, url, correlation_id, due_at) VALUES (?, ?, ?, ?, ?)`,
			c.TenantID, c.ServiceCallID, c.URL, c.CorrelationID, c.DueAt.UnixMilli())
		if err != nil {
			return err
		}
		return o.timers.ScheduleTx(ctx, tx, c.timer())
	})
}

// timer returns the timer of a service call.
func (c ServiceCall) timer() client.Timer {
	return client.Timer{TenantID: c.TenantID, ServiceCallID: c.ServiceCallID, DueAt: c.DueAt, CorrelationID: c.CorrelationID}
}

// Reschedule moves a service call and its timer. The error wraps [timer.ErrReached] if
// the timer has fired.
func (o *Orchestration) Reschedule(ctx context.Context, c ServiceCall) error {
	return o.timers.Tx(ctx, func(tx *sql.Tx) error {
		err := change(ctx, tx, `
			UPDATE service_calls SET url = ?, correlation_id = ?, due_at = ?
			 WHERE tenant_id = ? AND service_call_id = ? AND state = 'Scheduled'`,
			c.URL, c.CorrelationID, c.DueAt.UnixMilli(), c.TenantID, c.ServiceCallID)
		if err != nil {
			return err
		}
		return o.timers.ScheduleTx(ctx, tx, c.timer())
	})
}

// Cancel cancels a service call and its timer. The error wraps [timer.ErrReached] if
// the timer has fired.
func (o *Orchestration) Cancel(ctx context.Context, key timer.Key) error {
	return o.timers.Tx(ctx, func(tx *sql.Tx) error {
		err := change(ctx, tx, `
			UPDATE service_calls SET state = 'Canceled'
			 WHERE tenant_id = ? AND service_call_id = ? AND state = 'Scheduled'`,
			key.TenantID, key.ServiceCallID)
		if err != nil {
			return err
		}
		return o.timers.CancelTx(ctx, tx, key)
	})
}

// CancelAll cancels the service calls of a tenant that begin with a prefix, such as those of
// an order, and their timers.
func (o *Orchestration) CancelAll(ctx context.Context, tenant timer.TenantID, prefix string) error {
	return o.timers.Tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `
			UPDATE service_calls SET state = 'Canceled'
			 WHERE tenant_id = ? AND substr(service_call_id, 1, length(?)) = ? AND state = 'Scheduled'`, tenant, prefix, prefix)
		if err != nil {
			return err
		}
		_, err = o.timers.CancelWhereTx(ctx, tx, tenant, timer.Selection{Prefix: prefix})
		return err
	})
}

// OnDue starts a service call, again if the process died while it was Running.
func (o *Orchestration) OnDue(ctx context.Context, e timer.DueTimeReached) error {
	start := StartExecution{Key: e.Key, CorrelationID: e.CorrelationID}
	err := o.timers.Tx(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `
			UPDATE service_calls SET state = 'Running'
			 WHERE tenant_id = ? AND service_call_id = ? AND state IN ('Scheduled', 'Running') RETURNING url`,
			e.TenantID, e.ServiceCallID).Scan(&start.URL)
	})
	if errors.Is(err, sql.ErrNoRows) { // it was recorded, and the process died before the event was deleted
		return nil
	} else if err != nil {
		return err
	}
	return o.bus.Publish(ctx, start)
}

// record notes how a service call ended, once.
func (o *Orchestration) record(ctx context.Context, key timer.Key, state, answer string) error {
	return o.timers.Tx(ctx, func(tx *sql.Tx) error {
		return change(ctx, tx, `
			UPDATE service_calls SET state = ?, answer = ?, done_at = ?
			 WHERE tenant_id = ? AND service_call_id = ? AND state = 'Running'`,
			state, answer, time.Now().UnixMilli(), key.TenantID, key.ServiceCallID)
	})
}

// change changes a service call. It returns [errNotScheduled] if there was nothing to
// change.
func change(ctx context.Context, tx *sql.Tx, query string, args ...any) error {
	changed, err := tx.ExecContext(ctx, query, args...)
	if err != nil {
		return err
	}
	if n, err := changed.RowsAffected(); err != nil || n > 0 {
		return err
	}
	return errNotScheduled
}
