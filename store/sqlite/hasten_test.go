package sqlite

import (
	"path/filepath"
	"testing"
	"time"
)

// TestManyDeferredEventsAreHastenedInSteps, between which other transactions write.
func TestManyDeferredEventsAreHastenedInSteps(t *testing.T) {
	t.Parallel()
	const many = 25_000
	s := openAt(t, filepath.Join(t.TempDir(), "timers.db"), Options{Durability: Relaxed})
	now := time.Now()
	if _, err := s.db.ExecContext(t.Context(), `
		WITH RECURSIVE rows (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM rows WHERE n < ?1)
		INSERT INTO timer_outbox_deferred (seq, id, payload, headers, appended_at, attempts, last_error, destination, retry_at)
		SELECT n, 'id', x'', '{}', ?2, 1, 'failed', 'tenant-' || n % 3, ?2 + 3600000 FROM rows`, many, now.UnixMilli()); err != nil {
		t.Fatal(err)
	}
	before := s.commits.Load()
	if err := s.Hasten(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if steps := s.commits.Load() - before; steps < 5 {
		t.Errorf("%d transactions for %d events, want more", steps, many)
	}
	if rows, err := s.Deferred(t.Context(), now, "", 2*many, 2*many); err != nil || len(rows) != many {
		t.Errorf("%d events are due, %v, want %d", len(rows), err, many)
	}
}
