package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// TestDamagedHeadersStopNoOtherEvent spoils those of one of two events.
func TestDamagedHeadersStopNoOtherEvent(t *testing.T) {
	t.Parallel()
	first := openFile(t, sqlite.Options{})
	ctx := t.Context()
	for _, call := range []timer.ServiceCallID{"call-1", "call-2"} {
		event := timer.DueTimeReached{Key: schedule(call).Key, CommandID: "command", DueAt: noon, ReachedAt: noon}
		if err := first.Update(ctx, func(tx timer.Tx) error { return tx.Emit(ctx, event) }); err != nil {
			t.Fatal(err)
		}
	}
	exec(t, first.DB(), `UPDATE timer_outbox SET headers = replace(headers, '"', '') WHERE seq = (SELECT min(seq) FROM timer_outbox)`)
	s := sqlite.New(first.DB(), sqlite.Options{}) // has none in memory
	rows, err := s.Head(ctx, 0, 10)
	if err != nil || len(rows) != 2 || rows[0].Err == nil || rows[1].Err != nil {
		t.Fatalf("read %+v, %v, want two events and that the first is damaged", rows, err)
	}
	if err := s.Defer(ctx, outbox.Deferral{Place: rows[0].Place, Destination: "damaged", Reason: rows[0].Err.Error(), RetryAt: noon}); err != nil {
		t.Error(err)
	}
	if rows, err := s.Deferred(ctx, noon, "", 10, 10); err != nil || len(rows) != 1 || rows[0].Err == nil {
		t.Errorf("deferred %+v, %v, want the damaged one", rows, err)
	}
}

// TestParkedEventsAreKeptAndSentAgain parks an event and brings it back with the
// statements that the page for operators shows.
func TestParkedEventsAreKeptAndSentAgain(t *testing.T) {
	t.Parallel()
	s := openFile(t, sqlite.Options{})
	ctx := t.Context()
	event := timer.DueTimeReached{Key: schedule("call-1").Key, CommandID: "command", DueAt: noon, ReachedAt: noon}
	if err := s.Update(ctx, func(tx timer.Tx) error { return tx.Emit(ctx, event) }); err != nil {
		t.Fatal(err)
	}
	row := head(t, s)
	if err := s.Defer(ctx, outbox.Deferral{Place: row.Place, Destination: "events", Reason: "too large", RetryAt: noon}); err != nil {
		t.Fatal(err)
	}
	if err := s.Park(ctx, noon.Add(time.Minute), outbox.Place{Seq: row.Seq, Deferred: true}, "too large again"); err != nil {
		t.Fatal(err)
	}
	var parked struct {
		ID, Error                      string
		Attempts, AppendedAt, ParkedAt int64
	}
	if err := s.DB().QueryRowContext(ctx, `SELECT id, last_error, attempts, appended_at, parked_at FROM timer_outbox_parked`).
		Scan(&parked.ID, &parked.Error, &parked.Attempts, &parked.AppendedAt, &parked.ParkedAt); err != nil {
		t.Fatal(err)
	}
	want := parked
	want.ID, want.Error, want.Attempts = row.Message.UUID, "too large again", 2
	want.AppendedAt, want.ParkedAt = noon.UnixMilli(), noon.Add(time.Minute).UnixMilli()
	if diff := cmp.Diff(want, parked); diff != "" {
		t.Errorf("parked (-want +got):\n%s", diff)
	}

	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(page), "```sql\nBEGIN IMMEDIATE;\n")
	script, _, found := strings.Cut(after, "COMMIT;\n```")
	if !found || !strings.Contains(script, "timer_outbox_parked") {
		t.Fatal("docs/operations.md does not show how to send parked events again")
	}
	exec(t, s.DB(), "BEGIN IMMEDIATE", script, "COMMIT")
	again := head(t, s)
	if again.Seq <= row.Seq || again.Attempts != 0 {
		t.Errorf("comes back as number %d with %d attempts", again.Seq, again.Attempts)
	}
	if diff := cmp.Diff([]any{row.Message.UUID, row.Message.Payload, row.Message.Metadata},
		[]any{again.Message.UUID, again.Message.Payload, again.Message.Metadata}); diff != "" {
		t.Errorf("message (-before +after):\n%s", diff)
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
	emit := func(s *sqlite.Store, call timer.ServiceCallID) outbox.Row {
		event := timer.DueTimeReached{Key: schedule(call).Key, CommandID: "command", DueAt: noon, ReachedAt: noon}
		if err := s.Update(ctx, func(tx timer.Tx) error { return tx.Emit(ctx, event) }); err != nil {
			t.Fatal(err)
		}
		return head(t, s)
	}
	for _, open := range []bool{true, false} { // the file is open when its sequence begins again, or not
		s, err := sqlite.Open(ctx, path, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		old := emit(s, "refused")
		if err := s.Defer(ctx, outbox.Deferral{Place: old.Place, Destination: "refused", Reason: "denied", RetryAt: noon}); err != nil {
			t.Fatal(err)
		}
		exec(t, s.DB(), `UPDATE sqlite_sequence SET seq = seq - 1 WHERE name = 'timer_outbox'`)
		if !open {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if s, err = sqlite.Open(ctx, path, sqlite.Options{}); err != nil {
				t.Fatal(err)
			}
		}
		row := emit(s, "accepted")
		if again := row.Seq == old.Seq; again != open {
			t.Errorf("open %t: the number %d is given after %d", open, row.Seq, old.Seq)
		}
		if err := s.Delete(ctx, row.Place); err != nil {
			t.Fatal(err)
		}
		left, err := s.Deferred(ctx, noon, "", 10, 10)
		if err != nil || len(left) != 1 {
			t.Errorf("open %t: %d deferred events are left, %v, want 1", open, len(left), err)
		}
		if err := errors.Join(s.Delete(ctx, outbox.Place{Seq: old.Seq, Deferred: true}), s.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
