package sqlite_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/store/sqlite"
)

// TestNextDueThatIsWrongIsCorrected changes the due time that is kept for a tenant to one
// that has passed. The transaction that finds nothing due corrects it, else the poller
// would begin one ten times a second.
func TestNextDueThatIsWrongIsCorrected(t *testing.T) {
	t.Parallel()
	s := openFile(t, sqlite.Options{})
	scheduled(t, s, "call-1")
	next := func(step string, want time.Time) {
		t.Helper()
		if got, err := s.NextDue(t.Context(), time.Time{}); err != nil || !got.Equal(want) {
			t.Errorf("%s: next due %v, %v, want %v", step, got, err, want)
		}
	}
	next("scheduled", noon)
	early := noon.Add(-time.Hour)
	exec(t, s.DB(), fmt.Sprintf(`UPDATE timer_counts SET next_due = %d WHERE tenant_id <> ''`, early.UnixMilli()))
	next("changed", early)
	if calls, err := reachAt(t, s, early); err != nil || len(calls) > 0 {
		t.Fatalf("fired %v, %v", calls, err)
	}
	next("corrected", noon)
}
