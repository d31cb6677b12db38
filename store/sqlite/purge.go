package sqlite

import (
	"context"
	"time"

	"github.com/event-service-agent/timer-service/internal/failpoint"
)

// Purge looks first, since a look takes no write lock.
func (s *Store) Purge(ctx context.Context, before time.Time, limit int) (deleted int, err error) {
	var over bool
	if err := s.reads.QueryRowContext(ctx, sqlOver, before.UnixMilli()).Scan(&over); err != nil {
		return 0, classify("look for what is over", err)
	}
	if !over {
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
