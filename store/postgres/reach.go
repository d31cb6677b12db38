package postgres

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/store"
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
// due.
func (t *transaction) Reach(ctx context.Context, now time.Time, limit int, allow timer.Allowance) ([]timer.Entry, error) {
	if err := ctx.Err(); err != nil || limit <= 0 {
		return nil, err
	}
	due := batch{now: timer.RoundDown(now), watermark: t.store.watermark.get(), limit: limit, allow: allow, taken: make(map[timer.TenantID]int)}
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

// A batch holds the timers that Reach marks.
type batch struct {
	now       time.Time
	watermark time.Time // the lowest due time that is read
	limit     int
	allow     timer.Allowance
	entries   []timer.Entry
	taken     map[timer.TenantID]int
}

// start takes all due timers, unless there are more than the limit.
func (b *batch) start(ctx context.Context, t *transaction) (backlogged bool, err error) {
	if b.allow == nil {
		return b.take(ctx, t, sqlReach, b.now, int64(b.limit), true, b.watermark)
	}
	var shares shares
	total := 0
	err = t.rows(ctx, sqlDueCounts, []any{b.now, int64(b.limit + 1), b.watermark}, func(row store.Scanner) error {
		var tenant string
		var n int
		err := row.Scan(&tenant, &n)
		total += n
		shares.add(tenant, min(n, b.left(timer.TenantID(tenant))))
		return err
	})
	if err != nil || total > b.limit {
		return total > b.limit, err
	}
	return false, b.takeShares(ctx, t, shares)
}

// share takes an equal share for each tenant, then the oldest timers of all tenants.
func (b *batch) share(ctx context.Context, t *transaction) error {
	tenants, err := t.dueTenants(ctx, b)
	if err != nil {
		return err
	}
	if tenants, err = b.takeEqually(ctx, t, tenants); err != nil {
		return err
	}
	if b.allow == nil {
		if rest := b.limit - len(b.entries); rest > 0 {
			_, err = b.take(ctx, t, sqlReach, b.now, int64(rest), false, b.watermark)
		}
		return err
	}
	// All of the oldest timers may belong to tenants that may fire no more, so the rest is
	// shared among the other tenants.
	for range maxRounds {
		if len(tenants) == 0 || len(b.entries) == b.limit || err != nil {
			break
		}
		tenants, err = b.takeEqually(ctx, t, tenants)
	}
	return err
}

// maxRounds is how often the rest of a batch is shared again.
const maxRounds = 4

// takeEqually takes an equal share of the rest of the batch for each tenant. It returns the
// tenants that used their whole share and may fire more.
func (b *batch) takeEqually(ctx context.Context, t *transaction, tenants []timer.TenantID) (more []timer.TenantID, err error) {
	rest := b.limit - len(b.entries)
	var equal shares
	before := make([]int, len(tenants))
	for i, tenant := range tenants {
		before[i] = b.taken[tenant]
		equal.add(string(tenant), min(max(rest/len(tenants), 1), b.left(tenant)))
		if len(equal.tenants) == rest {
			break
		}
	}
	if err := b.takeShares(ctx, t, equal); err != nil {
		return nil, err
	}
	for i, tenant := range tenants {
		if b.taken[tenant]-before[i] >= rest/len(tenants) && b.left(tenant) > 0 {
			more = append(more, tenant)
		}
	}
	return more, nil
}

// left returns how many more timers of a tenant may fire.
func (b *batch) left(tenant timer.TenantID) int {
	if b.allow == nil {
		return math.MaxInt
	}
	return b.allow(tenant) - b.taken[tenant]
}

// Shares say how many timers of which tenants to take.
type shares struct {
	tenants []string
	sizes   []int64
}

func (s *shares) add(tenant string, size int) {
	if size > 0 {
		s.tenants, s.sizes = append(s.tenants, tenant), append(s.sizes, int64(size))
	}
}

func (b *batch) takeShares(ctx context.Context, t *transaction, s shares) error {
	if len(s.tenants) == 0 {
		return nil
	}
	_, err := b.take(ctx, t, sqlReachShares, b.now, s.tenants, s.sizes, b.watermark)
	return err
}

// take takes timers with a statement. Its first column says whether it took none because
// more are due than the limit.
func (b *batch) take(ctx context.Context, t *transaction, text string, args ...any) (backlogged bool, err error) {
	err = t.rows(ctx, text, args, func(row store.Scanner) error {
		e, err := store.ReadEntryAfter(row, &backlogged)
		if err != nil || e.TenantID == "" { // nothing was taken
			return err
		}
		if e.DueAt.After(b.now) {
			return fmt.Errorf("%w: timer %s is due at %v, later than its index says: %s", timer.ErrFatal, timer.Quote(e.Key.String()), e.DueAt, wayOut)
		}
		b.entries = append(b.entries, e)
		b.taken[e.TenantID]++
		return nil
	})
	return backlogged, err
}

// dueTenants returns at most limit tenants that have due timers and may fire. It begins after
// the tenant where the last call ended, goes round once, and stops when it has examined
// enough tenants. So every tenant has its turn, however many there are.
func (t *transaction) dueTenants(ctx context.Context, b *batch) ([]timer.TenantID, error) {
	start, _ := t.store.walked.Load().(string)
	walk := walk{batch: b, budget: max(b.limit, minWalk)}
	if b.allow != nil {
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
	batch  *batch
	budget int              // tenants still to be examined; negative while the spare ones are used
	spare  int              // tenants to be examined beyond the budget while none is due
	due    []timer.TenantID // tenants with due timers
	last   string           // the last tenant that was examined
	ended  bool             // there are no more tenants
}

// goesOn reports whether more tenants are to be examined.
func (w *walk) goesOn() bool {
	return w.budget > 0 && len(w.due) < w.batch.limit || w.budget > -w.spare && len(w.due) == 0
}

// from walks the tenants after one, up to and including until; an empty until is no bound.
func (w *walk) from(ctx context.Context, t *transaction, after, until string) error {
	for past := false; !past && !w.ended && w.goesOn(); after = w.last {
		wanted, looked, found := w.batch.limit-len(w.due), 0, 0
		asked := w.budget
		if asked <= 0 {
			asked = min(minWalk, w.budget+w.spare)
		}
		err := t.rows(ctx, sqlTenants, []any{w.batch.now, after, int64(asked), int64(wanted), w.batch.watermark}, func(row store.Scanner) error {
			var tenant string
			var isDue bool
			if err := row.Scan(&tenant, &isDue); err != nil || past {
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
			if isDue && w.batch.left(timer.TenantID(tenant)) > 0 {
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
