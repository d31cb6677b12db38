package postgres

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// A Reader is a [timer.Reader]. [OpenReader] makes one; every [Store] has one.
type Reader struct {
	db *sql.DB
}

// Close closes the handle that OpenReader opened.
func (r *Reader) Close() error { return r.db.Close() }

// rows runs a statement and calls fn for each row.
func (r *Reader) rows(ctx context.Context, doing, text string, args []any, fn func(store.Scanner) error) error {
	return classify(doing, readTx(ctx, r.db, step{text: text, args: args, each: fn}))
}

// seek is rows for a statement that reads a row or two by an index, whatever the statistics
// say. It sets no limits, since it ends before they could matter, and so takes half as long
// (measured 2026-11).
func (r *Reader) seek(ctx context.Context, doing, text string, args []any, fn func(store.Scanner) error) error {
	return classify(doing, onConn(ctx, r.db, func(ctx context.Context, c *pgx.Conn) error {
		return send(ctx, c, step{text: text, args: args, each: fn})
	}))
}

// NextDue returns the earliest due time after the one given, of all Scheduled timers.
func (r *Reader) NextDue(ctx context.Context, after time.Time) (time.Time, error) {
	return r.nextDue(ctx, after, time.Time{})
}

func (r *Reader) nextDue(ctx context.Context, after, watermark time.Time) (due time.Time, err error) {
	err = r.seek(ctx, "find the next due time", sqlNextDue, []any{timer.RoundDown(after), watermark}, scan((*store.Time)(&due)))
	return due, err
}

// Get returns the timer, or [timer.ErrNotFound].
func (r *Reader) Get(ctx context.Context, key timer.Key) (timer.Entry, error) {
	entries, err := r.entries(ctx, "get "+key.String(), sqlGet, string(key.TenantID), string(key.ServiceCallID))
	return store.Only(key, entries, err)
}

// List returns a page of timers.
func (r *Reader) List(ctx context.Context, f timer.Filter) (timer.Page, error) {
	return store.List(ctx, f, r.ofTenant, r.correlated, r.soonest, r.over)
}

// correlated returns timers of any tenant that carry the correlation id.
func (r *Reader) correlated(ctx context.Context, f timer.Filter) (timer.Page, error) {
	entries, err := r.entries(ctx, "find by correlation id", sqlCorrelated, f.CorrelationID, int64(timer.PageSize(f.Limit)))
	return timer.Page{Entries: entries}, err
}

// ofTenant returns a page of a tenant's timers.
func (r *Reader) ofTenant(ctx context.Context, f timer.Filter) (page timer.Page, err error) {
	limit := timer.PageSize(f.Limit)
	after, before := store.Between(f)
	args := []any{
		string(f.TenantID), after, string(f.State), bound(f.DueFrom), bound(f.DueBefore), f.CorrelationID,
		int64(limit + 1), int64(timer.PageWalk), before,
	}
	err = r.rows(ctx, "list "+string(f.TenantID), sqlList, args, func(row store.Scanner) error {
		var edge bool
		e, err := store.ReadEntryAfter(row, &edge)
		if edge {
			page.Next = string(e.ServiceCallID)
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
		page.Next = string(page.Entries[limit-1].ServiceCallID)
	}
	return page, nil
}

// bound returns a bound of due times, or nil for the zero time. Due times are whole
// milliseconds, so both bounds are rounded up.
func bound(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = timer.RoundUp(t)
	return &t
}

func (r *Reader) entries(ctx context.Context, doing, text string, args ...any) (entries []timer.Entry, err error) {
	err = r.rows(ctx, doing, text, args, store.Collect(&entries, store.ReadEntry))
	return entries, err
}

// Stats returns the counts of a tenant, or the sums of all tenants if it is empty.
func (r *Reader) Stats(ctx context.Context, tenant timer.TenantID) (st timer.Stats, err error) {
	if tenant != "" {
		err = r.rows(ctx, "read the counts of "+string(tenant), sqlCounts, []any{string(tenant)}, scan(&st.Scheduled, &st.Reached, &st.Expired, &st.Canceled))
		return st, err
	}
	err = r.rows(ctx, "read the counts", sqlStats, nil, store.ReadStats(&st))
	return st, err
}

// Tenants returns the counts of tenants, in the order of their ids.
func (r *Reader) Tenants(ctx context.Context, after timer.TenantID, limit int) (tenants []timer.TenantCounts, err error) {
	err = r.rows(ctx, "read the counts of tenants", sqlTenantCounts, []any{string(after), int64(timer.PageSize(limit))}, store.Collect(&tenants, store.ReadTenantCounts))
	return tenants, err
}
