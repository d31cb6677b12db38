package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// A Reader is a [timer.Reader]. [OpenReader] makes one; every [Store] has one.
type Reader struct {
	db *sql.DB
}

// Close closes what OpenReader opened.
func (r *Reader) Close() error { return r.db.Close() }

// rows runs a statement and calls fn for each row.
func (r *Reader) rows(ctx context.Context, doing, text string, args []any, fn func(pgx.Rows) error) error {
	return classify(doing, readTx(ctx, r.db, step{text: text, args: args, each: fn}))
}

// seek is rows for a statement that reads a row or two by an index, whatever the
// statistics say: it is over before a limit could matter, and takes half as long
// without (measured 2026-11).
func (r *Reader) seek(ctx context.Context, doing, text string, args []any, fn func(pgx.Rows) error) error {
	return classify(doing, onConn(ctx, r.db, func(ctx context.Context, c *pgx.Conn) error {
		return send(ctx, c, step{text: text, args: args, each: fn})
	}))
}

// NextDue returns the earliest due time after the one given, of all Scheduled
// timers.
func (r *Reader) NextDue(ctx context.Context, after time.Time) (time.Time, error) {
	return r.nextDue(ctx, after, time.Time{})
}

func (r *Reader) nextDue(ctx context.Context, after, watermark time.Time) (due time.Time, err error) {
	err = r.seek(ctx, "find the next due time", sqlNextDue, []any{timer.RoundDown(after), watermark}, func(rows pgx.Rows) error {
		err := rows.Scan(&due)
		due = due.UTC()
		return err
	})
	return due, err
}

// Get returns the timer, or [timer.ErrNotFound].
func (r *Reader) Get(ctx context.Context, key timer.Key) (timer.Entry, error) {
	entries, err := r.entries(ctx, "get "+key.String(), sqlGet, string(key.TenantID), string(key.ServiceCallID))
	return store.Only(key, entries, err)
}

// List returns a page of a tenant's timers.
func (r *Reader) List(ctx context.Context, tenant timer.TenantID, f timer.Filter) (page timer.Page, err error) {
	limit := timer.PageSize(f.Limit)
	args := []any{
		string(tenant), string(f.After), string(f.State), bound(f.DueFrom), bound(f.DueBefore), f.CorrelationID,
		int64(limit + 1), int64(timer.PageWalk),
	}
	err = r.rows(ctx, "list "+string(tenant), sqlList, args, func(rows pgx.Rows) error {
		var edge bool
		e, err := scanEntry(rows, &edge)
		if edge {
			page.Next = e.ServiceCallID
		} else {
			page.Entries = append(page.Entries, e)
		}
		return err
	})
	if err != nil {
		return timer.Page{}, err
	}
	slices.SortFunc(page.Entries, func(a, b timer.Entry) int { return strings.Compare(string(a.ServiceCallID), string(b.ServiceCallID)) })
	if len(page.Entries) > limit {
		page.Entries = page.Entries[:limit]
		page.Next = page.Entries[limit-1].ServiceCallID
	}
	return page, nil
}

// bound is a bound of due times, which are whole milliseconds: both bounds are
// rounded up. One that is not given is null.
func bound(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = timer.RoundUp(t)
	return &t
}

// Correlated returns timers of any tenant that carry the correlation id.
func (r *Reader) Correlated(ctx context.Context, correlationID string, limit int) ([]timer.Entry, error) {
	return r.entries(ctx, "find by correlation id", sqlCorrelated, correlationID, int64(timer.PageSize(limit)))
}

func (r *Reader) entries(ctx context.Context, doing, text string, args ...any) (entries []timer.Entry, err error) {
	err = r.rows(ctx, doing, text, args, func(rows pgx.Rows) error {
		e, err := scanEntry(rows)
		entries = append(entries, e)
		return err
	})
	return entries, err
}

// Stats adds up the counts of all tenants.
func (r *Reader) Stats(ctx context.Context) (st timer.Stats, err error) {
	var next, oldest *time.Time
	var first string // id of the oldest event
	err = r.rows(ctx, "read the counts", sqlStats, nil, scan(&st.Scheduled, &st.Reached, &st.Canceled, &st.Outbox, &next, &oldest, &first, &st.Parked))
	if err != nil {
		return timer.Stats{}, err
	}
	st.NextDue, st.Oldest = instant(next), instant(oldest)
	st.DueAt, _ = envelope.DueAt(first)
	return st, nil
}

// Counts returns the counts of one tenant.
func (r *Reader) Counts(ctx context.Context, tenant timer.TenantID) (c timer.Counts, err error) {
	if tenant == "" { // under which those of all are kept
		return c, nil
	}
	err = r.rows(ctx, "read the counts of "+string(tenant), sqlCounts, []any{string(tenant)}, scan(&c.Scheduled, &c.Reached, &c.Canceled))
	return c, err
}

// Tenants returns the counts of tenants, in order.
func (r *Reader) Tenants(ctx context.Context, after timer.TenantID, limit int) (tenants []timer.TenantCounts, err error) {
	err = r.rows(ctx, "read the counts of tenants", sqlTenantCounts, []any{string(after), int64(timer.PageSize(limit))}, func(rows pgx.Rows) error {
		var c timer.TenantCounts
		err := rows.Scan((*string)(&c.TenantID), &c.Scheduled, &c.Reached, &c.Canceled)
		tenants = append(tenants, c)
		return err
	})
	return tenants, err
}

// scanEntry reads a timer, after other columns.
func scanEntry(rows pgx.Rows, before ...any) (e timer.Entry, err error) {
	var due, reached, canceled *time.Time
	err = rows.Scan(append(before, (*string)(&e.TenantID), (*string)(&e.ServiceCallID), (*nullable)(&e.CorrelationID), &due, &e.RegisteredAt, &reached, &canceled,
		(*string)(&e.State), &e.TimestampMS, &e.CommandID, (*nullable)(&e.Trace.Parent), (*nullable)(&e.Trace.State), (*nullable)(&e.Data))...)
	if err != nil {
		return e, fmt.Errorf("read a timer: %w", err)
	}
	e.DueAt, e.ReachedAt, e.CanceledAt = instant(due), instant(reached), instant(canceled)
	e.RegisteredAt = e.RegisteredAt.UTC()
	return e, nil
}

// instant returns the time of a column, zero for null.
func instant(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// A nullable is a text column that may be null: then it is empty.
type nullable string

// ScanText keeps a text.
func (n *nullable) ScanText(column pgtype.Text) error {
	*n = nullable(column.String)
	return nil
}
