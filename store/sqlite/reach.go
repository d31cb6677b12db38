package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// maxWalk is the most tenants with due timers that one transaction examines. That takes
// about as long as a commit (10 ms).
const maxWalk = 10_000

// NextDue returns the earliest due time after the one given, of all Scheduled
// timers.
func (s *Store) NextDue(ctx context.Context, after time.Time) (due time.Time, err error) {
	err = each(ctx, pollQuerier{s}, func(row store.Scanner) error { return row.Scan((*store.Time)(&due)) }, sqlNextDue, after.UnixMilli())
	return due, classify("find the next due time", err)
}

// Reach marks due timers and returns them. While more are due than the limit it
// first gives each tenant with due timers an equal share, then fills up, tenant by tenant,
// from the one whose timers are due the longest. With an allowance it does not fill up,
// since it would read timers that may not fire, such as all due timers of a paused tenant.
func (t *transaction) Reach(ctx context.Context, now time.Time, limit int, allow timer.Allowance) ([]timer.Entry, error) {
	if err := ctx.Err(); err != nil || limit <= 0 {
		return nil, err
	}
	ctx = context.WithoutCancel(ctx)
	ms := now.UnixMilli()
	var backlogged bool
	if err := each(ctx, t, store.Scan(&backlogged), sqlBacklogged, ms, limit); err != nil {
		return nil, err
	}
	due := batch{now: now, allow: allow, taken: make(map[timer.TenantID]int)}
	if backlogged {
		if err := due.share(ctx, t, ms, limit); err != nil {
			return nil, err
		}
	}
	if rest := limit - len(due.entries); rest > 0 && (allow == nil || !backlogged) {
		if err := due.read(ctx, t, sqlDue, ms, rest); err != nil {
			return nil, err
		}
	}
	if due.seen == 0 && !backlogged { // timer_counts has a next due time that has passed, for no timer: uncorrected, the poller would poll again at once
		_, err := t.ExecContext(ctx, sqlCorrectNextDue, ms)
		return nil, err
	}
	if err := due.mark(ctx, t); err != nil {
		return nil, err
	}
	for i := range due.entries {
		c := t.count(due.entries[i].TenantID)
		c.Count(timer.Scheduled, -1)
		c.Count(due.entries[i].State, 1)
	}
	failpoint.Here("claimed")
	return due.entries, nil
}

// dueTenants returns at most limit tenants with due timers that are allowed.
func (t *transaction) dueTenants(ctx context.Context, ms int64, limit int, due *batch) (tenants []string, err error) {
	all, err := t.visit(ctx, func(tenant string) bool {
		if due.left(timer.TenantID(tenant)) > 0 {
			tenants = append(tenants, tenant)
		}
		return true
	}, sqlDueTenants, ms, limit+1)
	if err != nil || all <= limit {
		return tenants, err
	}
	return t.walk(ctx, ms, limit, due)
}

// walk returns some of many tenants with due timers. It begins after the one where the
// last call ended, and goes round once: so every tenant has its turn.
func (t *transaction) walk(ctx context.Context, ms int64, limit int, due *batch) (tenants []string, err error) {
	start, examined := t.store.lastTenant, 0
	examine := func(tenant string) bool {
		examined++
		t.store.lastTenant = tenant
		if due.left(timer.TenantID(tenant)) > 0 {
			tenants = append(tenants, tenant)
		}
		return len(tenants) < limit && examined < maxWalk
	}
	if _, err = t.visit(ctx, examine, sqlTenants, ms, start); err != nil || len(tenants) == limit || examined == maxWalk {
		return tenants, err
	}
	_, err = t.visit(ctx, func(tenant string) bool { return tenant <= start && examine(tenant) }, sqlTenants, ms, "")
	return tenants, err
}

// errEnough ends a visit.
var errEnough = errors.New("enough")

// visit calls fn for each tenant that a statement returns, until fn returns false. It returns
// the number of calls.
func (t *transaction) visit(ctx context.Context, fn func(tenant string) bool, text string, args ...any) (n int, err error) {
	err = each(ctx, t, func(row store.Scanner) error {
		var tenant string
		if err := row.Scan(&tenant); err != nil {
			return err
		}
		if n++; !fn(tenant) {
			return errEnough
		}
		return nil
	}, text, args...)
	if errors.Is(err, errEnough) {
		err = nil
	}
	return n, err
}

// A batch holds timers between being read and being marked. No other transaction can change
// them in between, since this one holds the write lock.
type batch struct {
	now     time.Time
	seen    int // how many were read
	entries []timer.Entry
	rowids  []int64 // of the timers that are not marked yet
	allow   timer.Allowance
	taken   map[timer.TenantID]int
}

// left returns how many more timers of a tenant may fire.
func (b *batch) left(tenant timer.TenantID) int {
	if b.allow == nil {
		return math.MaxInt
	}
	return b.allow(tenant) - b.taken[tenant]
}

// share reads and marks an equal share of each tenant with due timers.
func (b *batch) share(ctx context.Context, t *transaction, ms int64, limit int) error {
	tenants, err := t.dueTenants(ctx, ms, limit, b)
	if err != nil {
		return err
	}
	for _, tenant := range tenants {
		share := min(limit/len(tenants), b.left(timer.TenantID(tenant)))
		if err := b.read(ctx, t, sqlDueTenant, ms, share, tenant); err != nil {
			return err
		}
	}
	return b.mark(ctx, t)
}

// read adds timers that are due.
func (b *batch) read(ctx context.Context, t *transaction, text string, args ...any) error {
	return each(ctx, t, func(row store.Scanner) error {
		b.seen++
		var rowid int64
		e, err := store.ReadEntryAfter(row, &rowid)
		if err != nil {
			return err
		}
		if e.DueAt.After(b.now) {
			return fmt.Errorf("%w: a timer is due later than its index says: %s", timer.ErrFatal, wayOut)
		}
		if e.Mark(b.now); b.left(e.TenantID) > 0 {
			b.taken[e.TenantID]++
			b.entries, b.rowids = append(b.entries, e), append(b.rowids, rowid)
		}
		return nil
	}, text, args...)
}

// mark marks the timers that were read.
func (b *batch) mark(ctx context.Context, t *transaction) error {
	if len(b.rowids) == 0 {
		return nil
	}
	slices.Sort(b.rowids)
	changed, err := t.change(ctx, sqlMark, b.now.UnixMilli(), store.JSON(b.rowids))
	if err == nil && changed != int64(len(b.rowids)) {
		err = fmt.Errorf("%w: %d of %d due timers were marked, though no other transaction can have changed them: %s", timer.ErrFatal, changed, len(b.rowids), wayOut)
	}
	b.rowids = b.rowids[:0]
	return err
}

// Purge reads first, since reading takes no write lock.
func (s *Store) Purge(ctx context.Context, before time.Time, limit int) (deleted int, err error) {
	var finished bool
	if err := s.reads.QueryRowContext(ctx, sqlOver, before.UnixMilli()).Scan(&finished); err != nil {
		return 0, classify("find finished timers", err)
	}
	if !finished {
		return 0, nil
	}
	return s.counting(ctx, "purge", func(ctx context.Context, t *transaction) (int64, error) {
		n, err := t.change(ctx, sqlPurge, before.UnixMilli(), limit)
		failpoint.Here("purging")
		return n, err
	})
}
