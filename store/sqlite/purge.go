package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/event-service-agent/timer-service/internal/failpoint"
)

// Purge walks the table by its rowid, which needs no index of what is over.
func (s *Store) Purge(ctx context.Context, before time.Time, cursor int64, limit int) (deleted int, next int64, err error) {
	var last sql.NullInt64
	var seen, over int
	err = s.reads.QueryRowContext(ctx, sqlPurgeLook, cursor, limit, before.UnixMilli()).Scan(&last, &seen, &over)
	if err != nil {
		return 0, cursor, classify("look for what is over", err)
	}
	if seen == limit {
		next = last.Int64
	}
	if over == 0 {
		return 0, next, nil
	}
	err = s.writing(ctx, "purge", func(ctx context.Context, t *transaction) error {
		n, err := t.change(ctx, sqlPurge, cursor, last.Int64, before.UnixMilli())
		deleted = int(n)
		failpoint.Here("purging")
		return err
	})
	if err != nil {
		return 0, cursor, err
	}
	return deleted, next, nil
}
