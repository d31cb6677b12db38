package sqlite

import (
	"context"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// minWalk is how many tenants with waiting timers are looked at, at least, when
// more is due than the limit. At 2.5 µs each (measured 2026-11) that takes about
// as long as a commit, and a hundred thousand tenants are gone round within a
// second.
const minWalk = 1000

// Reach marks due timers and returns them. While more are due than the limit it
// first gives each tenant with due timers an equal share, then fills up with
// the oldest of all.
func (t *transaction) Reach(ctx context.Context, now time.Time, limit int) ([]timer.Entry, error) {
	if err := ctx.Err(); err != nil || limit <= 0 {
		return nil, err
	}
	ctx = context.WithoutCancel(ctx)
	ms := now.UnixMilli()
	var crowded bool
	if err := t.QueryRowContext(ctx, sqlCrowded, ms, limit).Scan(&crowded); err != nil {
		return nil, err
	}
	entries := make([]timer.Entry, 0, limit)
	if crowded {
		tenants, err := t.dueTenants(ctx, ms, limit)
		if err != nil {
			return nil, err
		}
		for _, tenant := range tenants {
			if entries, err = t.claim(ctx, entries, sqlReachTenant, ms, limit/len(tenants), tenant); err != nil {
				return nil, err
			}
		}
	}
	return t.claim(ctx, entries, sqlReach, ms, limit-len(entries))
}

// dueTenants returns at most limit tenants with due timers. It begins after the
// one where the last call ended, goes round once, and stops when it has looked
// at enough: so every tenant has its turn, however many there are.
func (t *transaction) dueTenants(ctx context.Context, ms int64, limit int) ([]string, error) {
	start := t.store.lastTenant
	walk := walk{ms: ms, limit: limit, budget: max(limit, minWalk)}
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
	ms     int64
	limit  int      // of tenants with due timers
	budget int      // of tenants still to be looked at
	due    []string // tenants with due timers
	last   string   // the last tenant that was looked at
	ended  bool     // there was no tenant any more
}

// from goes on after a tenant, until one that is past the other unless that is
// empty.
func (w *walk) from(ctx context.Context, t *transaction, after, until string) error {
	rows, err := t.QueryContext(ctx, sqlTenants, w.ms, after, w.budget)
	if err != nil {
		return err
	}
	defer rows.Close()
	for len(w.due) < w.limit && w.budget > 0 {
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
		if isDue {
			w.due = append(w.due, tenant)
		}
	}
	return nil
}

// claim runs a statement that marks timers, and appends them.
func (t *transaction) claim(ctx context.Context, entries []timer.Entry, text string, args ...any) ([]timer.Entry, error) {
	rows, err := t.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	return appendEntries(entries, rows)
}
