package sqlite

import (
	"context"
	"time"

	"github.com/event-service-agent/timer-service/internal/failpoint"
)

// Purge reads first, since reading takes no write lock.
func (s *Store) Purge(ctx context.Context, before time.Time, limit int) (deleted int, err error) {
	var finished bool
	if err := s.reads.QueryRowContext(ctx, sqlOver, before.UnixMilli()).Scan(&finished); err != nil {
		return 0, classify("find finished timers", err)
	}
	if !finished {
		return 0, nil
	}
	err = s.writing(ctx, "purge", func(ctx context.Context, t *transaction) error {
		n, err := t.change(ctx, sqlPurge, before.UnixMilli(), limit)
		deleted = int(n)
		failpoint.Here("purging")
		return err
	})
	if err != nil {
		return 0, err
	}
	return deleted, nil
}
