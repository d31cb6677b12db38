package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// TestNextDueThatIsWrongIsCorrected changes the due time that is kept for a tenant. One
// that has passed is corrected by the transaction that finds nothing due, else the poller
// would begin one ten times a second; one that is too late, when the file is opened.
func TestNextDueThatIsWrongIsCorrected(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "timers.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { s.Close() }()
	if _, err := s.Schedule(t.Context(), noon, schedule("call-1")); err != nil {
		t.Fatal(err)
	}
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
	for _, wrong := range []string{"99999999999999", "NULL"} {
		exec(t, s.DB(), `UPDATE timer_counts SET next_due = `+wrong+` WHERE tenant_id <> ''`)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s, err = sqlite.Open(t.Context(), path, sqlite.Options{}); err != nil {
			t.Fatal(err)
		}
		if err := s.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		next("opened with "+wrong, noon)
	}
}

// TestNextDueThatIsWrongIsCorrectedOnAHostsHandle at the start.
func TestNextDueThatIsWrongIsCorrectedOnAHostsHandle(t *testing.T) {
	t.Parallel()
	first := openFile(t, sqlite.Options{})
	if _, err := first.Schedule(t.Context(), noon, schedule("call-1")); err != nil {
		t.Fatal(err)
	}
	exec(t, first.DB(), `UPDATE timer_counts SET next_due = NULL WHERE tenant_id <> ''`)
	s := sqlite.New(first.DB(), sqlite.Options{})
	if err := s.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if next, err := s.NextDue(t.Context(), time.Time{}); err != nil || !next.Equal(noon) {
		t.Errorf("next due %v, %v, want noon", next, err)
	}
}

// TestATimerWithoutIndexEntryIsFound: the count of its tenant says that it waits. The
// transaction after the one that sees it makes the indexes again.
func TestATimerWithoutIndexEntryIsFound(t *testing.T) {
	t.Parallel()
	s := openFile(t, sqlite.Options{})
	for _, call := range []timer.ServiceCallID{"call-1", "call-2"} {
		if _, err := s.Schedule(t.Context(), noon, schedule(call)); err != nil {
			t.Fatal(err)
		}
	}
	// The statement that makes an index also says which rows it has: SQLite believes the
	// entries that there are.
	exec(t, s.DB(),
		`DROP INDEX idx_timer_schedules_tenant_due`,
		`CREATE INDEX idx_timer_schedules_tenant_due ON timer_schedules (tenant_id, due_at) WHERE state = 'Scheduled' AND service_call_id <> 'call-2'`,
		`PRAGMA writable_schema = on`,
		`UPDATE sqlite_schema SET sql = replace(sql, ' AND service_call_id <> ''call-2''', '') WHERE name = 'idx_timer_schedules_tenant_due'`,
		`PRAGMA writable_schema = reset`)
	for _, want := range []int{1, 1, 0} {
		if calls, err := reachAt(t, s, noon); err != nil || len(calls) != want {
			t.Errorf("fired %v, %v, want %d", calls, err, want)
		}
	}
}
