package sqlite

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/timer"
)

// minWalk is how many tenants with waiting timers are looked at, at least, when
// more is due than the limit. At 2.5 µs each (measured 2026-11) that takes about
// as long as a commit, and a hundred thousand tenants are gone round within a
// second.
const minWalk = 1000

// spareWalk is how many more are read while none of them may fire: those
// that may not leave more due than the limit for as long as they like, and the
// poller polls ten times a second then.
const spareWalk = 9 * minWalk

// Reach marks due timers and returns them. While more are due than the limit it
// first gives each tenant with due timers an equal share, then fills up with
// the oldest of all. What is not allowed is read and left alone, no more than
// the limit of it.
func (t *transaction) Reach(ctx context.Context, now time.Time, limit int, allow timer.Allowance) ([]timer.Entry, error) {
	if err := ctx.Err(); err != nil || limit <= 0 {
		return nil, err
	}
	ctx = context.WithoutCancel(ctx)
	ms := now.UnixMilli()
	var backlogged bool
	if err := t.QueryRowContext(ctx, sqlBacklogged, ms, limit).Scan(&backlogged); err != nil {
		return nil, err
	}
	due := claim{now: now, allow: allow, taken: make(map[timer.TenantID]int)}
	if backlogged {
		due.entries = make([]timer.Entry, 0, limit)
		tenants, err := t.dueTenants(ctx, ms, limit, &due)
		if err != nil {
			return nil, err
		}
		for _, tenant := range tenants {
			share := min(limit/len(tenants), due.left(timer.TenantID(tenant)))
			if err := due.read(ctx, t, sqlDueTenant, ms, share, tenant); err != nil {
				return nil, err
			}
		}
		if err := due.mark(ctx, t); err != nil {
			return nil, err
		}
	}
	if rest := limit - len(due.entries); rest > 0 {
		if err := due.read(ctx, t, sqlDue, ms, rest); err != nil {
			return nil, err
		}
	}
	err := due.mark(ctx, t)
	for tenant, n := range due.taken {
		c := t.count(tenant)
		c.Scheduled -= int64(n)
		c.Reached += int64(n)
	}
	failpoint.Here("claimed")
	return due.entries, err
}

// dueTenants returns at most limit tenants with due timers that are allowed. It
// begins after the one where the last call ended, goes round once, and stops when
// it has looked at enough: so every tenant has its turn, however many there are.
func (t *transaction) dueTenants(ctx context.Context, ms int64, limit int, due *claim) ([]string, error) {
	start := t.store.lastTenant
	walk := walk{claim: due, ms: ms, limit: limit, budget: max(limit, minWalk)}
	if due.allow != nil {
		walk.spare = spareWalk
	}
	if err := walk.from(ctx, t, start, ""); err != nil {
		return nil, err
	}
	if walk.ended && start != "" {
		walk.ended = false
		if err := walk.from(ctx, t, "", start); err != nil {
			return nil, err
		}
	}
	t.store.lastTenant = walk.last
	return walk.due, nil
}

// A walk goes from tenant to tenant, of those with waiting timers.
type walk struct {
	claim  *claim
	ms     int64
	limit  int      // of tenants with due timers
	budget int      // of tenants still to be looked at; the spare ones make it negative
	spare  int      // tenants to be looked at beyond the budget while none is due
	due    []string // tenants with due timers
	last   string   // the last tenant that was looked at
	ended  bool     // there was no tenant any more
}

// from goes on after a tenant, until one that is past the other unless that is
// empty.
func (w *walk) from(ctx context.Context, t *transaction, after, until string) error {
	rows, err := t.QueryContext(ctx, sqlTenants, w.ms, after, w.budget+w.spare)
	if err != nil {
		return err
	}
	defer rows.Close()
	for w.budget > 0 && len(w.due) < w.limit || w.budget > -w.spare && len(w.due) == 0 {
		if !rows.Next() {
			w.ended = true
			return rows.Err()
		}
		var tenant string
		var isDue bool
		if err := rows.Scan(&tenant, &isDue); err != nil {
			return err
		}
		if until != "" && tenant > until {
			w.last = until
			return nil
		}
		w.budget--
		w.last = tenant
		if isDue && w.claim.left(timer.TenantID(tenant)) > 0 {
			w.due = append(w.due, tenant)
		}
	}
	return nil
}

// A claim is timers that were read, to be marked. No other transaction can change them in
// between: the transaction holds the write lock.
type claim struct {
	now     time.Time
	entries []timer.Entry
	rowids  []int64 // of those that are not marked yet
	damaged []int64 // rowids of those that are not set aside yet
	allow   timer.Allowance
	taken   map[timer.TenantID]int
}

// left returns how many more of a tenant are allowed.
func (c *claim) left(tenant timer.TenantID) int {
	if c.allow == nil {
		return math.MaxInt
	}
	return c.allow(tenant) - c.taken[tenant]
}

// read adds timers that are due.
func (c *claim) read(ctx context.Context, t *transaction, text string, args ...any) error {
	rows, err := t.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		e := timer.Entry{State: timer.Reached, ReachedAt: c.now}
		var rowid, due, registered int64
		var sum sum
		err := rows.Scan(&rowid, &sum, (*string)(&e.TenantID), (*string)(&e.ServiceCallID), (*nullable)(&e.CorrelationID), &due, &registered,
			&e.TimestampMS, &e.CommandID, (*nullable)(&e.Trace.Parent), (*nullable)(&e.Trace.State), (*nullable)(&e.Data))
		e.DueAt, e.RegisteredAt = time.UnixMilli(due).UTC(), time.UnixMilli(registered).UTC()
		switch {
		case err != nil && rowid == 0:
			return fmt.Errorf("read a due timer: %w", err)
		case err != nil, !sum.matches(&e): // columns do not have the types that they were written with
			c.damaged = append(c.damaged, rowid)
		case due > c.now.UnixMilli():
			return errIndexes
		case c.left(e.TenantID) > 0:
			c.taken[e.TenantID]++
			c.entries, c.rowids = append(c.entries, e), append(c.rowids, rowid)
		}
	}
	return rows.Err()
}

// mark marks what was read, and sets aside what is damaged. A list that is shorter than
// the statement repeats its last item, which changes nothing.
func (c *claim) mark(ctx context.Context, t *transaction) error {
	if err := t.setAside(ctx, c.now, c.damaged...); err != nil {
		return err
	}
	c.damaged = c.damaged[:0]
	slices.Sort(c.rowids)
	for rest := c.rowids; len(rest) > 0; {
		size := 0
		for size < len(markSizes)-1 && markSizes[size] < len(rest) {
			size++
		}
		n := min(len(rest), markSizes[size])
		args := make([]any, 0, 1+markSizes[size])
		args = append(args, c.now.UnixMilli())
		for i := range markSizes[size] {
			args = append(args, rest[min(i, n-1)])
		}
		changed, err := t.change(ctx, sqlMarkChunks[size], args...)
		if err != nil {
			return err
		}
		if changed != int64(n) {
			return fmt.Errorf("%d of %d due timers were marked, though no other transaction can have changed them: %w", changed, n, errIndexes)
		}
		rest = rest[n:]
	}
	c.rowids = c.rowids[:0]
	return nil
}
