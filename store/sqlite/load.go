package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

var _ store.DumpLoader = (*Store)(nil)

// loadRows is how many rows one statement loads.
const loadRows = 50

// Load inserts all that another store held.
func (s *Store) Load(ctx context.Context, next func() (store.Record, error)) error {
	return s.writing(ctx, "load", func(endless context.Context, t *transaction) error {
		var empty bool
		if err := t.QueryRowContext(endless, sqlEmpty).Scan(&empty); err != nil {
			return err
		}
		if !empty {
			return store.ErrNotEmpty
		}
		return t.withoutIndexes(endless, func() error { return t.load(ctx, next) })
	})
}

// load keeps all records.
func (t *transaction) load(ctx context.Context, next func() (store.Record, error)) error {
	endless := context.WithoutCancel(ctx)
	l := &load{t: t, next: math.MaxInt64}
	defer l.close()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		r, err := next()
		if errors.Is(err, io.EOF) {
			return l.finish(endless)
		}
		if err != nil {
			return err
		}
		if err := l.add(endless, r); err != nil {
			return err
		}
	}
}

// A load is records on their way into the database: rows of one kind wait until
// one statement takes many.
type load struct {
	t      *transaction
	kind   store.Kind
	first  string // what waits: the first row of it
	args   []any
	rows   int
	chunks map[store.Kind]*sql.Stmt

	tenant timer.TenantID // whose timers come now, and how many there were
	count  timer.Counts
	next   int64 // earliest due time of those that wait, in milliseconds
	events int64
	parked [2]int64 // the first and the last number of parked events
}

// add takes a record.
func (l *load) add(ctx context.Context, r store.Record) error {
	if r.Kind != l.kind || l.rows == loadRows {
		if err := l.flush(ctx); err != nil {
			return err
		}
		l.kind = r.Kind
	}
	if l.rows == 0 {
		l.first = r.Event.ID
		if r.Kind == store.KindTimer {
			l.first = r.Timer.Key.String()
		}
	}
	switch r.Kind {
	case store.KindTimer:
		l.rows++
		return l.timer(ctx, &r.Timer)
	case store.KindOutbox:
		l.rows++
		l.events++
		return l.event(&r.Event)
	case store.KindParked:
		return l.park(ctx, &r.Event)
	}
	return fmt.Errorf("%q is not a kind of record", r.Kind)
}

// timer lets a timer wait, and counts it for its tenant. Tenants come one after
// the other, so that it is never more than one that is counted.
func (l *load) timer(ctx context.Context, e *timer.Entry) error {
	l.args = append(l.args,
		string(e.TenantID), string(e.ServiceCallID), text(e.CorrelationID), millis(e.DueAt), millis(e.RegisteredAt),
		millis(e.ReachedAt), millis(e.CanceledAt), string(e.State), e.TimestampMS, e.CommandID, text(e.Trace.Parent), text(e.Trace.State), text(e.Data), checksumOf(e))
	if e.TenantID != l.tenant {
		if err := l.writeCount(ctx); err != nil {
			return err
		}
		l.tenant = e.TenantID
	}
	switch e.State {
	case timer.Scheduled:
		l.count.Scheduled++
		l.next = min(l.next, e.DueAt.UnixMilli())
	case timer.Reached:
		l.count.Reached++
	case timer.Canceled:
		l.count.Canceled++
	}
	return nil
}

// checksumOf is that of a timer that waits: no other is verified.
func checksumOf(e *timer.Entry) any {
	if e.State != timer.Scheduled {
		return nil
	}
	return int64(e.Checksum())
}

// writeCount writes the count of the tenant whose timers came.
func (l *load) writeCount(ctx context.Context) error {
	c, next := l.count, any(l.next)
	l.count, l.next = timer.Counts{}, math.MaxInt64
	switch {
	case c == (timer.Counts{}):
		return nil
	case c.Scheduled == 0:
		next = nil
	}
	_, err := l.t.ExecContext(ctx, sqlLoadCount, string(l.tenant), c.Scheduled, c.Reached, c.Canceled, next)
	return err
}

// event lets an event wait.
func (l *load) event(e *store.Event) error {
	args, err := columns(e)
	l.args = append(l.args, args...)
	return err
}

func columns(e *store.Event) ([]any, error) {
	headers, err := e.HeadersText()
	if err != nil {
		return nil, err
	}
	body := e.Body
	if body == nil {
		body = []byte{}
	}
	return []any{e.ID, body, headers, e.AppendedAt.UnixMilli(), e.Attempts, text(e.LastError)}, nil
}

// park keeps a parked event. Its number is one that the outbox gives and never
// gives again: an event with that number could not be parked.
func (l *load) park(ctx context.Context, e *store.Event) error {
	args, err := columns(e)
	if err != nil {
		return err
	}
	result, err := l.t.ExecContext(ctx, sqlLoadOutbox, args...)
	if err != nil {
		return err
	}
	seq, err := result.LastInsertId()
	if err != nil {
		return err
	}
	if l.parked[1] = seq; l.parked[0] == 0 {
		l.parked[0] = seq
	}
	args[5] = e.LastError // which may be empty, but not null
	_, err = l.t.ExecContext(ctx, sqlLoadParked, append(append([]any{seq}, args...), e.ParkedAt.UnixMilli())...)
	return err
}

// flush writes what waits.
func (l *load) flush(ctx context.Context) (err error) {
	if l.rows == 0 {
		return nil
	}
	one := sqlLoadTimers
	if l.kind == store.KindOutbox {
		one = sqlLoadOutbox
	}
	switch stmt := l.chunks[l.kind]; {
	case l.rows < loadRows:
		_, err = l.t.ExecContext(ctx, repeatValues(one, l.rows), l.args...)
	case stmt == nil:
		if stmt, err = l.t.session.PrepareContext(ctx, repeatValues(one, loadRows)); err != nil {
			return err
		}
		if l.chunks == nil {
			l.chunks = make(map[store.Kind]*sql.Stmt)
		}
		l.chunks[l.kind] = stmt
		fallthrough
	default:
		_, err = stmt.ExecContext(ctx, l.args...)
	}
	if err != nil {
		return fmt.Errorf("%d rows from %s %s on: %w", l.rows, l.kind, l.first, err)
	}
	clear(l.args)
	l.args, l.rows = l.args[:0], 0
	return nil
}

// finish writes what is left.
func (l *load) finish(ctx context.Context) error {
	if err := l.flush(ctx); err != nil {
		return err
	}
	if err := l.writeCount(ctx); err != nil {
		return err
	}
	l.t.count(outboxCount).outbox += l.events
	if l.parked[0] == 0 {
		return nil
	}
	_, err := l.t.ExecContext(ctx, sqlDelete, l.parked[0], l.parked[1])
	return err
}

func (l *load) close() {
	for _, stmt := range l.chunks {
		_ = stmt.Close() // goes with the transaction anyway
	}
}

// millis is a time as a column that may be null.
func millis(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMilli()
}
