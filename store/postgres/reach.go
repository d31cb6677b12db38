package postgres

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/timer"
)

// minWalk is how many tenants with waiting timers are looked at, at least, when
// more is due than the limit.
const minWalk = 1000

// spareWalk is how many more are looked at while none of them may fire: those
// that may not leave more due than the limit for as long as they like, and the
// poller polls ten times a second then.
const spareWalk = 9 * minWalk

// Reach marks due timers and returns them. While more are due than the limit it
// first gives each tenant with due timers an equal share, then fills up with the
// oldest of all.
//
// What another transaction is changing is skipped, so that no transaction waits: it is
// marked there, moved away, or still due when this is called again. What is
// marked was locked before, as its newest version says it is due. In a database that is
// older than it was nothing is marked.
func (t *transaction) Reach(ctx context.Context, now time.Time, limit int, allow timer.Allowance) ([]timer.Entry, error) {
	if err := ctx.Err(); err != nil || limit <= 0 {
		return nil, err
	}
	if compare, ok := t.store.compare(); ok {
		t.later(compare) // with the first claim
	}
	due := claim{now: timer.RoundDown(now), watermark: t.store.watermark.get(), limit: limit, allow: allow, taken: make(map[timer.TenantID]int)}
	// Where more was due than a batch holds, more is due: then it is not checked whether
	// it is. What is shared is all there is, if that is less.
	backlogged, err := allow == nil && t.store.backlogged.Load(), error(nil)
	if !backlogged {
		backlogged, err = due.start(ctx, t)
	}
	if err == nil && backlogged {
		err = due.share(ctx, t)
	}
	t.store.backlogged.Store(backlogged && len(due.entries) == limit)
	failpoint.Here("claimed")
	return due.entries, err
}

// A claim is timers that were marked.
type claim struct {
	now       time.Time
	watermark time.Time // where due times begin
	limit     int
	allow     timer.Allowance
	entries   []timer.Entry
	taken     map[timer.TenantID]int
}

// start claims all that is due, unless that is more than the limit.
func (c *claim) start(ctx context.Context, t *transaction) (backlogged bool, err error) {
	if c.allow == nil {
		return c.take(ctx, t, sqlReach, c.now, int64(c.limit), true, c.watermark)
	}
	var shares shares
	total := 0
	err = t.rows(ctx, sqlDueCounts, []any{c.now, int64(c.limit + 1), c.watermark}, func(rows pgx.Rows) error {
		var tenant string
		var n int
		err := rows.Scan(&tenant, &n)
		total += n
		shares.add(tenant, min(n, c.left(timer.TenantID(tenant))))
		return err
	})
	if err != nil || total > c.limit {
		return total > c.limit, err
	}
	return false, c.takeShares(ctx, t, shares)
}

// share claims an equal share of each tenant, then the oldest of all.
func (c *claim) share(ctx context.Context, t *transaction) error {
	tenants, err := t.dueTenants(ctx, c)
	if err != nil {
		return err
	}
	if tenants, err = c.takeEqually(ctx, t, tenants); err != nil {
		return err
	}
	if c.allow == nil {
		if rest := c.limit - len(c.entries); rest > 0 {
			_, err = c.take(ctx, t, sqlReach, c.now, int64(rest), false, c.watermark)
		}
		return err
	}
	// The oldest of all may be those of tenants that may have no more, however
	// many: so the rest is shared among those that may.
	for range maxRounds {
		if len(tenants) == 0 || len(c.entries) == c.limit || err != nil {
			break
		}
		tenants, err = c.takeEqually(ctx, t, tenants)
	}
	return err
}

// maxRounds is how often what is left of a batch is shared again.
const maxRounds = 4

// takeEqually claims an equal share of what is left of the limit from each tenant,
// and returns those that had as many and may have more.
func (c *claim) takeEqually(ctx context.Context, t *transaction, tenants []timer.TenantID) (more []timer.TenantID, err error) {
	rest := c.limit - len(c.entries)
	var equal shares
	before := make([]int, len(tenants))
	for i, tenant := range tenants {
		before[i] = c.taken[tenant]
		equal.add(string(tenant), min(max(rest/len(tenants), 1), c.left(tenant)))
		if len(equal.tenants) == rest {
			break
		}
	}
	if err := c.takeShares(ctx, t, equal); err != nil {
		return nil, err
	}
	for i, tenant := range tenants {
		if c.taken[tenant]-before[i] >= rest/len(tenants) && c.left(tenant) > 0 {
			more = append(more, tenant)
		}
	}
	return more, nil
}

// left returns how many more of a tenant are allowed.
func (c *claim) left(tenant timer.TenantID) int {
	if c.allow == nil {
		return math.MaxInt
	}
	return c.allow(tenant) - c.taken[tenant]
}

// Shares are how many timers of which tenants are to be claimed.
type shares struct {
	tenants []string
	sizes   []int64
}

func (s *shares) add(tenant string, size int) {
	if size > 0 {
		s.tenants, s.sizes = append(s.tenants, tenant), append(s.sizes, int64(size))
	}
}

func (c *claim) takeShares(ctx context.Context, t *transaction, s shares) error {
	if len(s.tenants) == 0 {
		return nil
	}
	_, err := c.take(ctx, t, sqlReachShares, c.now, s.tenants, s.sizes, c.watermark)
	return err
}

// take claims with a statement, which says in its first column whether it left
// all alone because there is too much.
func (c *claim) take(ctx context.Context, t *transaction, text string, args ...any) (backlogged bool, err error) {
	err = t.rows(ctx, text, args, func(rows pgx.Rows) error {
		e, err := scanEntry(rows, &backlogged)
		if err != nil || e.TenantID == "" { // nothing was claimed
			return err
		}
		if e.DueAt.After(c.now) {
			return fmt.Errorf("%w: timer %s is due at %v, later than its index says: %s", timer.ErrFatal, timer.Quote(e.Key.String()), e.DueAt, wayOut)
		}
		c.entries = append(c.entries, e)
		c.taken[e.TenantID]++
		return nil
	})
	return backlogged, err
}

// dueTenants returns at most limit tenants with due timers that are allowed. It
// begins after the one where the last call ended, goes round once, and stops when
// it has looked at enough: so every tenant has its turn, however many there are.
func (t *transaction) dueTenants(ctx context.Context, c *claim) ([]timer.TenantID, error) {
	start, _ := t.store.walked.Load().(string)
	walk := walk{claim: c, budget: max(c.limit, minWalk)}
	if c.allow != nil {
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
	t.store.walked.Store(walk.last)
	return walk.due, nil
}

// A walk goes from tenant to tenant, of those with waiting timers.
type walk struct {
	claim  *claim
	budget int              // of tenants still to be looked at; the spare ones make it negative
	spare  int              // tenants to be looked at beyond the budget while none is due
	due    []timer.TenantID // tenants with due timers
	last   string           // the last tenant that was looked at
	ended  bool             // there was no tenant any more
}

// goesOn reports whether more tenants are to be looked at.
func (w *walk) goesOn() bool {
	return w.budget > 0 && len(w.due) < w.claim.limit || w.budget > -w.spare && len(w.due) == 0
}

// from goes on after a tenant, until one that is past the other unless that is
// empty.
func (w *walk) from(ctx context.Context, t *transaction, after, until string) error {
	for past := false; !past && !w.ended && w.goesOn(); after = w.last {
		wanted, looked, found := w.claim.limit-len(w.due), 0, 0
		asked := w.budget
		if asked <= 0 {
			asked = min(minWalk, w.budget+w.spare)
		}
		err := t.rows(ctx, sqlTenants, []any{w.claim.now, after, int64(asked), int64(wanted)}, func(rows pgx.Rows) error {
			var tenant string
			var isDue bool
			if err := rows.Scan(&tenant, &isDue); err != nil || past {
				return err
			}
			if until != "" && tenant > until {
				w.last, past = until, true
				return nil
			}
			looked++
			w.budget--
			w.last = tenant
			if isDue {
				found++
			}
			if isDue && w.claim.left(timer.TenantID(tenant)) > 0 {
				w.due = append(w.due, timer.TenantID(tenant))
			}
			return nil
		})
		if err != nil {
			return err
		}
		w.ended = !past && looked < asked && found < wanted
	}
	return nil
}
