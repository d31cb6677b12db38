package sqlite

import (
	"context"
	"database/sql"

	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// A Reader is a [timer.Reader]. [OpenReader] makes one; every [Store] has one.
type Reader struct {
	store.Reader
	reads *sql.DB
}

// newReader returns a Reader on a handle that reads.
func newReader(reads *sql.DB) *Reader {
	r := &Reader{reads: reads}
	r.Reader = store.Reader{SQL: statements, Rows: r.rows}
	return r
}

// Close closes the handle of OpenReader.
func (r *Reader) Close() error { return r.reads.Close() }

// DatabaseID returns the id of [Store.Identity].
func (r *Reader) DatabaseID(ctx context.Context) (id string, err error) {
	return id, r.rows(ctx, "identify the database", sqlIdentity, nil, store.Scan(&id))
}

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
func (r *Reader) rows(ctx context.Context, doing, text string, args []any, fn func(store.Scanner) error) error {
	return classify(doing, each(ctx, r.reads, fn, text, arguments(args)...))
}

// List returns a page of timers.
func (r *Reader) List(ctx context.Context, f timer.Filter) (timer.Page, error) {
	return r.ListBy(ctx, f, r.ofTenant, r.soonest, r.over)
}

// ofTenant returns a page of a tenant's timers.
func (r *Reader) ofTenant(ctx context.Context, f timer.Filter) (timer.Page, error) {
	doing := "list " + string(f.TenantID)
	limit := timer.PageSize(f.Limit)
	after, before := store.Between(f)
	var end sql.NullString // of the walk; null if the page is full before, or the timers end
	if f != (timer.Filter{TenantID: f.TenantID, Prefix: f.Prefix, After: f.After, Limit: f.Limit}) {
		if err := r.Rows(ctx, doing, sqlWalkEnd, []any{string(f.TenantID), after, timer.PageWalk, before}, store.Scan(&end)); err != nil {
			return timer.Page{}, err
		}
	}
	// Due times are whole milliseconds, so both of their bounds are rounded up.
	entries, err := r.Entries(ctx, doing, sqlList, string(f.TenantID), after, end,
		orNull(string(f.State)), timer.RoundUp(f.DueFrom), timer.RoundUp(f.DueBefore), orNull(f.CorrelationID), limit+1, before)
	if err != nil {
		return timer.Page{}, err
	}
	if len(entries) > limit {
		return timer.Page{Entries: entries[:limit], Next: string(entries[limit-1].ServiceCallID)}, nil
	}
	return timer.Page{Entries: entries, Next: end.String}, nil
}
