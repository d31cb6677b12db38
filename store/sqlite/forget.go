package sqlite

import (
	"context"

	"github.com/event-service-agent/timer-service/timer"
)

// Forget deletes timers of a tenant in one transaction, after its parked events, in
// as many as they take.
func (s *Store) Forget(ctx context.Context, tenant timer.TenantID, limit int) (c timer.Counts, err error) {
	const doing = "forget a tenant"
	if limit <= 0 {
		return c, nil
	}
	for more := true; more; {
		err := s.writing(ctx, doing, func(ctx context.Context, t *transaction) error {
			deleted, err := t.change(ctx, sqlForgetParked, string(tenant), limit)
			more = deleted == int64(limit)
			return err
		})
		if err != nil {
			return timer.Counts{}, err
		}
	}
	err = s.writing(ctx, doing, func(ctx context.Context, t *transaction) (err error) {
		c, err = t.forget(ctx, tenant, limit)
		return err
	})
	if err != nil {
		return timer.Counts{}, err
	}
	return c, nil
}

// forget deletes timers, and returns what they were.
func (t *transaction) forget(ctx context.Context, tenant timer.TenantID, limit int) (c timer.Counts, err error) {
	rows, err := t.QueryContext(ctx, sqlForget, string(tenant), limit)
	if err != nil {
		return c, err
	}
	defer rows.Close()
	for rows.Next() {
		var state string
		if err := rows.Scan(&state); err != nil {
			return c, err
		}
		switch timer.State(state) {
		case timer.Scheduled:
			c.Scheduled++
		case timer.Reached:
			c.Reached++
		case timer.Canceled:
			c.Canceled++
		}
	}
	return c, rows.Err()
}
