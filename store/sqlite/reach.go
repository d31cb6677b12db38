package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// Reach marks due timers and returns them. While more are due than the limit it
// first gives each tenant with due timers an equal share, then fills up with
// the oldest of all.
func (t *transaction) Reach(ctx context.Context, now time.Time, limit int) ([]timer.Entry, error) {
	ms := now.UnixMilli()
	crowded, err := t.crowded(ctx, ms, limit)
	if err != nil {
		return nil, err
	}
	var entries []timer.Entry
	if crowded {
		if entries, err = t.reachShares(ctx, ms, limit); err != nil {
			return nil, err
		}
	}
	if len(entries) == limit {
		return entries, nil
	}
	rest, err := t.claim(ctx, sqlReach, ms, limit-len(entries))
	return append(entries, rest...), err
}

// crowded reports whether more timers are due than the limit.
func (t *transaction) crowded(ctx context.Context, ms int64, limit int) (bool, error) {
	rows, err := t.QueryContext(ctx, sqlCrowded, ms, limit)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	return rows.Next(), rows.Err()
}

// reachShares claims for each of the next tenants with due timers an equal share
// of the limit.
func (t *transaction) reachShares(ctx context.Context, ms int64, limit int) ([]timer.Entry, error) {
	tenants, err := t.dueTenants(ctx, ms, limit)
	if err != nil || len(tenants) == 0 {
		return nil, err
	}
	share := max(1, limit/len(tenants))
	entries := make([]timer.Entry, 0, limit)
	for _, tenant := range tenants {
		n := min(share, limit-len(entries))
		if n == 0 {
			break
		}
		some, err := t.claim(ctx, sqlReachTenant, ms, n, tenant)
		if err != nil {
			return nil, err
		}
		entries = append(entries, some...)
	}
	return entries, nil
}

// A cursor remembers which tenant was served last, so that every tenant has its
// turn however many there are. It is a hint: losing it costs nothing.
type cursor struct {
	mu    sync.Mutex
	after string
}

func (c *cursor) get() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.after
}

func (c *cursor) set(after string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.after = after
}

// dueTenants looks at no more than limit tenants that have Scheduled timers,
// from where the last call ended, and returns those with due ones.
func (t *transaction) dueTenants(ctx context.Context, ms int64, limit int) ([]string, error) {
	after := t.store.tenants.get()
	due, seen, last, err := t.tenantsAfter(ctx, ms, after, limit)
	if err != nil {
		return nil, err
	}
	if seen == limit {
		t.store.tenants.set(last)
		return due, nil
	}
	t.store.tenants.set("") // the round is over, the next begins with the first
	if after == "" {
		return due, nil
	}
	first, _, last, err := t.tenantsAfter(ctx, ms, "", limit-seen)
	if err != nil {
		return nil, err
	}
	for _, tenant := range first {
		if tenant > after {
			break
		}
		due = append(due, tenant)
	}
	t.store.tenants.set(min(last, after))
	return due, nil
}

// tenantsAfter returns those with due timers of the next tenants after one, how
// many tenants it saw, and the last of them.
func (t *transaction) tenantsAfter(ctx context.Context, ms int64, after string, limit int) (due []string, seen int, last string, err error) {
	rows, err := t.QueryContext(ctx, sqlTenants, ms, after, limit)
	if err != nil {
		return nil, 0, "", err
	}
	defer rows.Close()
	for rows.Next() {
		var isDue bool
		if err := rows.Scan(&last, &isDue); err != nil {
			return nil, 0, "", err
		}
		seen++
		if isDue {
			due = append(due, last)
		}
	}
	return due, seen, last, rows.Err()
}

// claim runs a statement that marks timers and returns them.
func (t *transaction) claim(ctx context.Context, text string, args ...any) ([]timer.Entry, error) {
	rows, err := t.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	return scanEntries(rows)
}

// scanEntries reads entries and closes the rows.
func scanEntries(rows *sql.Rows) (entries []timer.Entry, err error) {
	defer rows.Close()
	for rows.Next() {
		var e timer.Entry
		var correlation, parent, state sql.NullString
		var due, reached, canceled sql.NullInt64
		var registered int64
		if err := rows.Scan(&e.TenantID, &e.ServiceCallID, &correlation, &due, &registered, &reached, &canceled, &e.State,
			&e.TimestampMS, &e.CommandID, &parent, &state); err != nil {
			return nil, fmt.Errorf("read a timer: %w", err)
		}
		e.CorrelationID, e.Trace = correlation.String, timer.Trace{Parent: parent.String, State: state.String}
		e.DueAt, e.ReachedAt, e.CanceledAt = instant(due), instant(reached), instant(canceled)
		e.RegisteredAt = time.UnixMilli(registered).UTC()
		entries = append(entries, e)
	}
	return entries, rows.Err()
}

// instant returns the time of a column, zero for null.
func instant(ms sql.NullInt64) time.Time {
	if !ms.Valid {
		return time.Time{}
	}
	return time.UnixMilli(ms.Int64).UTC()
}
