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

// minWalk is how many tenants with waiting timers are examined, at least, when more timers
// are due than the limit.
const minWalk = 1000

// spareWalk is how many more tenants are examined while none of them may fire. Tenants over
// their quota may leave more timers due than the limit for any time, and the poller then
// polls ten times a second.
const spareWalk = 9 * minWalk

// Reach marks due timers and returns them. While more are due than the limit it first gives
// each tenant with due timers an equal share, and then fills up the batch with the oldest
// timers of all tenants.
//
// It skips timers that another transaction is changing, so that no transaction waits. Such a
// timer is marked by that transaction, is moved to another due time, or is still due at the
// next call. A timer is locked before it is marked, and its newest version says that it is
// due. If the database is older than it was, nothing is marked.
func (t *transaction) Reach(ctx context.Context, now time.Time, limit int, allow timer.Allowance) ([]timer.Entry, error) {
	if err := ctx.Err(); err != nil || limit <= 0 {
		return nil, err
	}
	if compare, ok := t.store.compare(); ok {
		t.later(compare) // goes to the server with the first claim
	}
	due := claim{now: timer.RoundDown(now), watermark: t.store.watermark.get(), limit: limit, allow: allow, taken: make(map[timer.TenantID]int)}
	// After a full batch with more timers due, Reach assumes a backlog without checking. If
	// there is none, the shares hold all due timers.
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

// A claim is a batch of timers that Reach marks.
type claim struct {
	now       time.Time
	watermark time.Time // the lowest due time that is read
	limit     int
	allow     timer.Allowance
	entries   []timer.Entry
	taken     map[timer.TenantID]int
}

// start claims all due timers, unless there are more than the limit.
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

// share claims an equal share for each tenant, then the oldest timers of all tenants.
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
	// All of the oldest timers may belong to tenants that may fire no more, so the rest is
	// shared among the other tenants.
	for range maxRounds {
		if len(tenants) == 0 || len(c.entries) == c.limit || err != nil {
			break
		}
		tenants, err = c.takeEqually(ctx, t, tenants)
	}
	return err
}

// maxRounds is how often the rest of a batch is shared again.
const maxRounds = 4

// takeEqually claims an equal share of the rest of the batch for each tenant. It returns the
// tenants that used their whole share and may fire more.
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

// left returns how many more timers of a tenant may fire.
func (c *claim) left(tenant timer.TenantID) int {
	if c.allow == nil {
		return math.MaxInt
	}
	return c.allow(tenant) - c.taken[tenant]
}

// Shares say how many timers of which tenants to claim.
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

// take claims timers with a statement. Its first column says whether it claimed none because
// more are due than the limit.
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

// dueTenants returns at most limit tenants that have due timers and may fire. It begins after
// the tenant where the last call ended, goes round once, and stops when it has examined
// enough tenants. So every tenant has its turn, however many there are.
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

// A walk goes from tenant to tenant, over the tenants with waiting timers.
type walk struct {
	claim  *claim
	budget int              // tenants still to be examined; negative while the spare ones are used
	spare  int              // tenants to be examined beyond the budget while none is due
	due    []timer.TenantID // tenants with due timers
	last   string           // the last tenant that was examined
	ended  bool             // there are no more tenants
}

// goesOn reports whether more tenants are to be examined.
func (w *walk) goesOn() bool {
	return w.budget > 0 && len(w.due) < w.claim.limit || w.budget > -w.spare && len(w.due) == 0
}

// from walks the tenants after one, up to and including until; an empty until is no bound.
func (w *walk) from(ctx context.Context, t *transaction, after, until string) error {
	for past := false; !past && !w.ended && w.goesOn(); after = w.last {
		wanted, looked, found := w.claim.limit-len(w.due), 0, 0
		asked := w.budget
		if asked <= 0 {
			asked = min(minWalk, w.budget+w.spare)
		}
		err := t.rows(ctx, sqlTenants, []any{w.claim.now, after, int64(asked), int64(wanted), w.claim.watermark}, func(rows pgx.Rows) error {
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
