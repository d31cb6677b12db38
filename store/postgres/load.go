package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

var _ store.DumpLoader = (*Store)(nil)

// parkedRows is how many parked events one statement loads.
const parkedRows = 500

// Load inserts all that another store held: timers and events by COPY. Events go to
// shard 0, which the first instance owns, or takes over.
func (s *Store) Load(ctx context.Context, next func() (store.Record, error)) error {
	s.working.begin()
	defer s.working.end()
	if err := s.ready(ctx); err != nil {
		return classify("load", err)
	}
	return classify("load", withConn(ctx, s.db, func(ctx context.Context, c *pgx.Conn) error {
		defer rollBack(ctx, c) // after a commit it does nothing
		if _, err := c.Exec(ctx, sqlLoadBegin); err != nil {
			return err
		}
		var empty bool
		if err := send(ctx, c, step{text: sqlEmpty, each: scan(&empty)}); err != nil {
			return err
		}
		if !empty {
			return store.ErrNotEmpty
		}
		if err := (&load{conn: c, more: next}).all(ctx); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		return send(ctx, c, step{text: commit})
	}))
}

// A load is records on their way into the database.
type load struct {
	conn *pgx.Conn
	more func() (store.Record, error)
	held *store.Record // was read, and is of another kind than those before
	err  error         // what ended the records
}

// all loads each kind in its turn.
func (l *load) all(ctx context.Context) error {
	timers := []string{
		"tenant_id", "service_call_id", "correlation_id", "due_at", "registered_at", "reached_at", "canceled_at", "state",
		"command_at", "command_id", "traceparent", "tracestate", "data", "checksum",
	}
	if err := l.copy(ctx, "timer_schedules", timers, store.KindTimer, timerRow); err != nil {
		return err
	}
	events := []string{"shard", "id", "payload", "headers", "appended_at", "attempts", "last_error"}
	if err := l.copy(ctx, "timer_outbox", events, store.KindOutbox, eventRow); err != nil {
		return err
	}
	if err := l.parked(ctx); err != nil {
		return err
	}
	if err := send(ctx, l.conn, step{text: sqlLoadUnpark}); err != nil {
		return err
	}
	switch r, err := l.next(""); {
	case err != nil && !errors.Is(err, io.EOF):
		return err
	case r != nil:
		return fmt.Errorf("%q is not a kind of record, or is out of order", r.Kind)
	}
	return send(ctx, l.conn, step{text: sqlLoadCounts})
}

// next returns the next record of a kind, nil if there is none, or the error that
// ended the records.
func (l *load) next(kind store.Kind) (*store.Record, error) {
	if l.err == nil && l.held == nil {
		var r store.Record
		if r, l.err = l.more(); l.err == nil {
			l.held = &r
		}
	}
	if l.held == nil || l.held.Kind != kind && kind != "" {
		return nil, l.err
	}
	r := l.held
	l.held = nil
	return r, nil
}

// copy loads the records of a kind into a table.
func (l *load) copy(ctx context.Context, table string, columns []string, kind store.Kind, row func(*store.Record) ([]any, error)) error {
	_, err := l.conn.CopyFrom(ctx, pgx.Identifier{table}, columns, pgx.CopyFromFunc(func() ([]any, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r, err := l.next(kind)
		if r == nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return nil, err
		}
		return row(r)
	}))
	if l.err != nil && !errors.Is(l.err, io.EOF) {
		return l.err // and not what the server made of it
	}
	return err
}

func timerRow(r *store.Record) ([]any, error) {
	e := &r.Timer
	var sum any // of a timer that waits: no other is verified
	if e.State == timer.Scheduled {
		sum = e.Checksum()
	}
	return []any{
		string(e.TenantID), string(e.ServiceCallID), text(e.CorrelationID), timestamp(e.DueAt), timestamp(e.RegisteredAt), timestamp(e.ReachedAt),
		timestamp(e.CanceledAt), string(e.State), e.TimestampMS, e.CommandID, text(e.Trace.Parent), text(e.Trace.State), text(e.Data), sum,
	}, nil
}

func eventRow(r *store.Record) ([]any, error) {
	e := &r.Event
	headers, err := e.HeadersText()
	return []any{0, e.ID, body(e), headers, timestamp(e.AppendedAt), e.Attempts, text(e.LastError)}, err
}

// body is that of an event, never null.
func body(e *store.Event) []byte {
	if e.Body == nil {
		return []byte{}
	}
	return e.Body
}

// text is s as a column that may be null.
func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// timestamp is a time as a column that may be null.
func timestamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

// parked loads parked events, some at a time, since a number is asked for each.
func (l *load) parked(ctx context.Context) error {
	for {
		var ids, headers, reasons []string
		var payloads [][]byte
		var appended, parked []time.Time
		var attempts []int32
		for len(ids) < parkedRows {
			if err := ctx.Err(); err != nil {
				return err
			}
			r, err := l.next(store.KindParked)
			if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			if r == nil {
				break
			}
			e := &r.Event
			text, err := e.HeadersText()
			if err != nil {
				return err
			}
			ids, payloads, headers, reasons = append(ids, e.ID), append(payloads, body(e)), append(headers, text), append(reasons, e.LastError)
			appended, parked, attempts = append(appended, e.AppendedAt), append(parked, e.ParkedAt), append(attempts, int32(e.Attempts))
		}
		if len(ids) == 0 {
			return nil
		}
		if err := send(ctx, l.conn, step{text: sqlLoadParked, args: []any{ids, payloads, headers, appended, attempts, reasons, parked}}); err != nil {
			return err
		}
	}
}
