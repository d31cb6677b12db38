package postgres_test

import (
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/internal/pgtest"
)

// TestCheckFindsALock has another transaction lock our tables: against all, and
// against those that write, as CREATE INDEX does.
func TestCheckFindsALock(t *testing.T) {
	t.Parallel()
	place := withFewRights(t, pgtest.URL(t))
	s, other := open(t, place, relaxed), open(t, place, relaxed)
	for _, lock := range []string{
		`LOCK TABLE timer_schedules IN ACCESS EXCLUSIVE MODE`,
		`LOCK TABLE timer_outbox IN SHARE MODE`,
	} {
		if err := s.Check(t.Context()); err != nil {
			t.Errorf("before: %v", err)
		}
		tx, err := other.DB().BeginTx(t.Context(), nil)
		must(t, err)
		run(t, tx, lock)
		if err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "another transaction holds a lock") {
			t.Errorf("%s: %v", lock, err)
		}
		must(t, tx.Rollback())
		if err := s.Check(t.Context()); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	}
}
