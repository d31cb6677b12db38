package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/timer"
)

// Purge leaves alone what another transaction is changing, such as the purge of
// another instance.
func (s *Store) Purge(ctx context.Context, before time.Time, limit int) (deleted int, err error) {
	err = s.writing(ctx, "purge", func(ctx context.Context, t *transaction) error {
		t.later(step{text: sqlPurge, args: []any{timer.RoundDown(before), int64(limit)}, done: func(tag pgconn.CommandTag) {
			deleted = int(tag.RowsAffected())
			failpoint.Here("purging")
		}})
		return nil
	})
	if err != nil {
		return 0, err
	}
	return deleted, nil
}
