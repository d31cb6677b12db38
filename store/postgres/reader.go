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
	store.Reader
	db *sql.DB
}

// newReader returns a Reader on a handle.
func newReader(db *sql.DB) *Reader {
	r := &Reader{db: db}
	r.Reader = store.Reader{SQL: statements, Rows: r.rows}
	return r
}

// Close closes the handle that OpenReader opened.
func (r *Reader) Close() error { return r.db.Close() }

// DatabaseID returns the id of [Store.Identity].
func (r *Reader) DatabaseID(ctx context.Context) (id string, err error) {
	var database, schema string
	return id, r.rows(ctx, "identify the database", sqlIdentity, nil, store.Scan(&id, &database, &schema))
}

// rows runs a statement and calls fn for each row.
func (r *Reader) rows(ctx context.Context, doing, text string, args []any, fn func(store.Scanner) error) error {
	return classify(doing, readTx(ctx, r.db, step{text: text, args: nullable(args), each: fn}))
}

// nullable returns arguments in which zero times are null. It may change the slice.
func nullable(args []any) []any {
	for i, arg := range args {
		if at, ok := arg.(time.Time); ok && at.IsZero() {
			args[i] = nil
		}
	}
	return args
}

// seek is rows for a statement that reads a few rows by an index, or all of a table that has few,
// whatever the statistics say. It begins no transaction and sets no limits, since it ends before
// they could matter. So it takes half as long (measured 2026-11), and an idle instance, which
// repeats such reads, sends a quarter of the statements.
func (r *Reader) seek(ctx context.Context, doing, text string, args []any, fn func(store.Scanner) error) error {
	return classify(doing, onConn(ctx, r.db, func(ctx context.Context, c *pgx.Conn) error {
		return send(ctx, c, step{text: text, args: args, each: fn})
	}))
}

// nextDue returns the earliest due time after one, of all Scheduled timers that are due at the
// watermark or later.
func (r *Reader) nextDue(ctx context.Context, after, watermark time.Time) (due time.Time, err error) {
	err = r.seek(ctx, "find the next due time", sqlNextDue, []any{timer.RoundDown(after), watermark}, store.Scan((*store.Time)(&due)))
	return due, err
}

// List returns a page of timers.
func (r *Reader) List(ctx context.Context, f timer.Filter) (timer.Page, error) {
	return r.ListBy(ctx, f, r.ofTenant, r.soonest, r.over)
}

// ofTenant returns a page of a tenant's timers.
func (r *Reader) ofTenant(ctx context.Context, f timer.Filter) (page timer.Page, err error) {
	limit := timer.PageSize(f.Limit)
	after, before := store.Between(f)
	args := []any{ // due times are whole milliseconds, so both of their bounds are rounded up
		string(f.TenantID), after, string(f.State), timer.RoundUp(f.DueFrom), timer.RoundUp(f.DueBefore), f.CorrelationID,
		int64(limit + 1), int64(timer.PageWalk), before,
	}
	err = r.Rows(ctx, "list "+string(f.TenantID), sqlList, args, func(row store.Scanner) error {
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
