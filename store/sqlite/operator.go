package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// A listPosition is the position of a timer among all that wait, or among all that are over.
type listPosition struct {
	at    int64 // when it is due, or since when it is over, in milliseconds
	rowid int64
}

// next returns [timer.Page.Next] of a page that ends there.
func (p listPosition) next() string { return fmt.Sprintf("%d-%d", p.at, p.rowid) }

// placeAfter returns the place that a page begins behind, the first one for an empty text.
func placeAfter(text string, first listPosition) (p listPosition, err error) {
	if text == "" {
		return first, nil
	}
	if n, _ := fmt.Sscanf(text, "%d-%d", &p.at, &p.rowid); n != 2 || p.next() != text {
		err = timer.Invalid(timer.ReasonBadField, "%s does not end a page of this store", timer.Quote(text))
	}
	return p, err
}

// soonest returns a page of the timers of all tenants that are due before a time. A page
// ends with the place of its last timer. Of each tenant it reads only timers that may be on the
// page.
func (r *Reader) soonest(ctx context.Context, f timer.Filter) (page timer.Page, err error) {
	const doing = "list due timers"
	limit := timer.PageSize(f.Limit)
	last, err := placeAfter(f.After, listPosition{})
	if err != nil {
		return page, err
	}
	conn, err := r.reads.Conn(ctx) // one for all: a host's handle may have no other
	if err != nil {
		return page, classify(doing, err)
	}
	defer conn.Close()
	places, err := soonestPlaces(ctx, conn, timer.RoundUp(f.DueBefore).UnixMilli(), last, limit+1)
	if err != nil {
		return page, classify(doing, err)
	}
	if len(places) > limit {
		places = places[:limit]
		page.Next = places[limit-1].next()
	}
	rowids := make([]int64, len(places))
	for i, p := range places {
		rowids[i] = p.rowid
	}
	err = each(ctx, conn, store.Collect(&page.Entries, store.ReadEntry), sqlRows, store.JSON(rowids))
	return page, classify(doing, err)
}

// soonestPlaces returns the places of the first timers behind one that are due before a time, in order.
func soonestPlaces(ctx context.Context, conn *sql.Conn, before int64, after listPosition, limit int) (first []listPosition, err error) {
	err = each(ctx, conn, func(tenants store.Scanner) error {
		var tenant string
		var due int64
		if err := tenants.Scan(&tenant, &due); err != nil || due >= before {
			return err
		}
		if err := each(ctx, conn, func(row store.Scanner) error {
			var p listPosition
			err := row.Scan(&p.at, &p.rowid)
			first = append(first, p)
			return err
		}, sqlSoonest, before, after.at, after.rowid, limit, tenant); err != nil {
			return err
		}
		slices.SortFunc(first, func(a, b listPosition) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.rowid, b.rowid)) })
		if len(first) >= limit {
			first = first[:limit]
			before = first[limit-1].at + 1
		}
		return nil
	}, sqlSoonestTenants, before)
	return first, err
}

// over returns a page of the timers of all tenants that are over since a time.
func (r *Reader) over(ctx context.Context, f timer.Filter) (page timer.Page, err error) {
	limit := timer.PageSize(f.Limit)
	last, err := placeAfter(f.After, listPosition{at: timer.RoundUp(f.OverFrom).UnixMilli()})
	if err != nil {
		return page, err
	}
	err = r.Rows(ctx, "list timers that are over", sqlOverFrom, []any{last.at, last.rowid, limit + 1}, func(row store.Scanner) error {
		if len(page.Entries) == limit {
			page.Next = last.next()
			return nil
		}
		e, err := store.ReadEntryAfter(row, &last.rowid)
		last.at = e.OverAt().UnixMilli()
		page.Entries = append(page.Entries, e)
		return err
	})
	return page, err
}

// Upcoming counts timers by when they are due. In several intervals it counts those of many tenants
// one by one.
func (r *Reader) Upcoming(ctx context.Context, tenant timer.TenantID, from time.Time, width time.Duration, n, limit int) ([]int64, error) {
	if tenant != "" || n == 1 || timer.CheckIntervals(width, n) != nil {
		return r.Reader.Upcoming(ctx, tenant, from, width, n, limit)
	}
	begin, length := timer.RoundUp(from).UnixMilli(), (width + time.Millisecond - 1).Milliseconds()
	var each []int64 // the interval of each timer
	err := r.rows(ctx, "count upcoming timers", sqlUpcomingMany, []any{begin, length, begin + length*int64(n), maxOneByOne}, store.Collect(&each, store.ReadNumber))
	if err == nil && (len(each) == 0 || len(each) == maxOneByOne) { // few tenants, or too many timers
		return r.Reader.Upcoming(ctx, tenant, from, width, n, limit)
	}
	counts := make([]int64, n)
	for _, interval := range each {
		counts[interval] = min(counts[interval]+1, int64(limit))
	}
	return counts, err
}

// maxOneByOne is how many timers of many tenants are counted one by one, which takes a
// quarter of a second on a busy machine. Interval by interval, each tenant is looked at in
// each interval that is not full, which is slow for many tenants.
const maxOneByOne = 100_000

// write runs a statement in a transaction, and calls fn for each row.
func (s *Store) write(ctx context.Context, doing, text string, args []any, fn func(store.Scanner) error) error {
	return s.writing(ctx, doing, func(ctx context.Context, t *transaction) error { return each(ctx, t, fn, text, arguments(args)...) })
}

// runTogether runs statements in one transaction.
func (s *Store) runTogether(ctx context.Context, doing string, fn func(run func(text string, args ...any) (int64, error)) error) error {
	return s.writing(ctx, doing, func(ctx context.Context, t *transaction) error {
		return fn(func(text string, args ...any) (int64, error) { return t.change(ctx, text, arguments(args)...) })
	})
}
