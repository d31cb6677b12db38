package sqlite_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/store/storetest"
	"github.com/event-service-agent/timer-service/timer"
)

// TestRecoveredProperty runs the property on a file that the store opens itself.
func TestRecoveredProperty(t *testing.T) {
	t.Parallel()
	storetest.RecoveredProperty(t, 60, func(t testing.TB) storetest.Store { return openFile(t, relaxed) })
}

// TestNextDueThatIsWrongIsCorrected changes the due time that is kept for a tenant to one
// that has passed. The transaction that finds nothing due corrects it: otherwise the
// poller would begin one ten times a second.
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
	if calls, err := reachAt(t, s, early, 10); err != nil || len(calls) > 0 {
		t.Fatalf("fired %v, %v", calls, err)
	}
	next("corrected", noon)
}

// TestDamagedHeadersStopNoOtherEvent spoils those of one of two events.
func TestDamagedHeadersStopNoOtherEvent(t *testing.T) {
	t.Parallel()
	s := openFile(t, sqlite.Options{})
	ctx := t.Context()
	for _, call := range []timer.ServiceCallID{"call-1", "call-2"} {
		emit(t, s, call)
	}
	exec(t, s.DB(), `UPDATE timer_outbox SET headers = replace(headers, '"', '') WHERE seq = (SELECT min(seq) FROM timer_outbox)`)
	rows, err := s.Head(ctx, 0, 10)
	if err != nil || len(rows) != 2 || rows[0].Err == nil || rows[1].Err != nil {
		t.Fatalf("read %+v, %v, want two events and that the first is damaged", rows, err)
	}
	must(t, s.Defer(ctx, outbox.Deferral{Place: rows[0].Place, Destination: "damaged", Reason: rows[0].Err.Error(), RetryAt: noon}))
	if rows, err := s.Deferred(ctx, noon, "", 10, 10); err != nil || len(rows) != 1 || rows[0].Err == nil {
		t.Errorf("deferred %+v, %v, want the damaged one", rows, err)
	}
}

func head(t *testing.T, s *sqlite.Store) outbox.Row {
	t.Helper()
	rows, err := s.Head(t.Context(), 0, 10)
	if err != nil || len(rows) != 1 {
		t.Fatalf("outbox: %v, %v, want one event", rows, err)
	}
	return rows[0]
}

// TestNumbersGoOnBehindRowsThatAreThere has a file that has lost the state of its sequence,
// as one that was made from the rows of another. An event that is deferred is not deleted
// with a new one of its number.
func TestNumbersGoOnBehindRowsThatAreThere(t *testing.T) {
	t.Parallel()
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "timers.db")
	for _, open := range []bool{true, false} { // the file is open when its sequence begins again, or not
		s := openAt(t, path, sqlite.Options{})
		emit(t, s, "refused")
		old := head(t, s)
		must(t, s.Defer(ctx, outbox.Deferral{Place: old.Place, Destination: "refused", Reason: "denied", RetryAt: noon}))
		exec(t, s.DB(), `UPDATE sqlite_sequence SET seq = seq - 1 WHERE name = 'timer_outbox'`)
		if !open {
			must(t, s.Close())
			s = openAt(t, path, sqlite.Options{})
		}
		emit(t, s, "accepted")
		row := head(t, s)
		if again := row.Seq == old.Seq; again != open {
			t.Errorf("open %t: the number %d is given after %d", open, row.Seq, old.Seq)
		}
		must(t, s.Delete(ctx, row.Place))
		left, err := s.Deferred(ctx, noon, "", 10, 10)
		if err != nil || len(left) != 1 {
			t.Errorf("open %t: %d deferred events are left, %v, want 1", open, len(left), err)
		}
		must(t, errors.Join(s.Delete(ctx, outbox.Place{Seq: old.Seq, Deferred: true}), s.Close()))
	}
}
