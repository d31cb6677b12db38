package sqlite

import (
	"context"
	"database/sql"

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
	err = s.writing(ctx, doing, func(ctx context.Context, t *transaction) error {
		return each(ctx, t, func(rows *sql.Rows) error {
			var state timer.State
			err := rows.Scan((*string)(&state))
			c.Count(state, 1)
			return err
		}, sqlForget, string(tenant), limit)
	})
	if err != nil {
		return timer.Counts{}, err
	}
	return c, nil
}
