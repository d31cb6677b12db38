package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// A Reader is a [timer.Reader]. [OpenReader] makes one; every [Store] has one.
type Reader struct {
	reads *sql.DB
}

// Close closes what OpenReader opened.
func (r *Reader) Close() error { return r.reads.Close() }

// A querier is a handle, a connection or a transaction.
type querier interface {
	QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error)
}

// each runs a statement and calls fn for each row, until it returns an error.
func each(ctx context.Context, from querier, fn func(store.Scanner) error, text string, args ...any) error {
	rows, err := from.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := fn(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// rows is each on the handle that reads.
func (r *Reader) rows(ctx context.Context, doing string, fn func(store.Scanner) error, text string, args ...any) error {
	return classify(doing, each(ctx, r.reads, fn, text, args...))
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
	entries, err := r.entries(ctx, "find by correlation id", sqlCorrelated, f.CorrelationID, timer.PageSize(f.Limit))
	return timer.Page{Entries: entries}, err
}

// ofTenant returns a page of a tenant's timers.
func (r *Reader) ofTenant(ctx context.Context, f timer.Filter) (timer.Page, error) {
	doing := "list " + string(f.TenantID)
	limit := timer.PageSize(f.Limit)
	after, before := store.Between(f)
	var end sql.NullString // of the walk; null if the page is full before, or the timers end
	if f != (timer.Filter{TenantID: f.TenantID, Prefix: f.Prefix, After: f.After, Limit: f.Limit}) {
		err := r.reads.QueryRowContext(ctx, sqlWalkEnd, string(f.TenantID), after, timer.PageWalk, before).Scan(&end)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return timer.Page{}, classify(doing, err)
		}
	}
	entries, err := r.entries(ctx, doing, sqlList, string(f.TenantID), after, end,
		orNull(string(f.State)), dueAt(f.DueFrom), dueAt(f.DueBefore), orNull(f.CorrelationID), limit+1, before)
	if err != nil {
		return timer.Page{}, err
	}
	if len(entries) > limit {
		return timer.Page{Entries: entries[:limit], Next: string(entries[limit-1].ServiceCallID)}, nil
	}
	return timer.Page{Entries: entries, Next: end.String}, nil
}

// dueAt is a bound of due times, which are whole milliseconds: both bounds are
// rounded up.
func dueAt(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return timer.RoundUp(t).UnixMilli()
}

func (r *Reader) entries(ctx context.Context, doing, text string, args ...any) (entries []timer.Entry, err error) {
	err = r.rows(ctx, doing, store.Collect(&entries, store.ReadEntry), text, args...)
	return entries, err
}

// Stats returns the counts of a tenant, or adds up those of all.
func (r *Reader) Stats(ctx context.Context, tenant timer.TenantID) (st timer.Stats, err error) {
	if tenant != "" {
		err = r.reads.QueryRowContext(ctx, sqlCounts, string(tenant)).Scan(&st.Scheduled, &st.Reached, &st.Expired, &st.Canceled)
		if errors.Is(err, sql.ErrNoRows) {
			return timer.Stats{}, nil
		}
		return st, classify("read the counts of "+string(tenant), err)
	}
	err = r.rows(ctx, "read the counts", store.ReadStats(&st), sqlStats)
	return st, err
}

// Tenants returns the counts of tenants, in order.
func (r *Reader) Tenants(ctx context.Context, after timer.TenantID, limit int) (tenants []timer.TenantCounts, err error) {
	err = r.rows(ctx, "read the counts of tenants", store.Collect(&tenants, store.ReadTenantCounts), sqlTenantCounts, string(after), timer.PageSize(limit))
	return tenants, err
}
