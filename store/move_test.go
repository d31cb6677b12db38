package store_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// TestMoveThereAndBack takes timers and events from SQLite to PostgreSQL and back,
// and finds the same lines each time.
func TestMoveThereAndBack(t *testing.T) {
	t.Parallel()
	there, err := postgres.Open(t.Context(), pgtest.URL(t), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = there.Close() })
	from := open(t, sqlite.Options{})
	live(t, from)
	first := lines(t, from)
	if n := strings.Count(first, "\n"); n < 1000 {
		t.Fatalf("%d lines are too few to prove something", n)
	}
	for _, to := range []store.DumpLoader{there, open(t, sqlite.Options{})} {
		file := "{\"kind\":\"header\",\"format\":\"timer-service-export\",\"version\":1,\"source\":\"test\",\"schemaVersion\":0}\n" + first
		if _, err := store.Import(t.Context(), to, strings.NewReader(file), nil); err != nil {
			t.Fatalf("%T: %v", to, err)
		}
		if got := lines(t, to); got != first {
			t.Errorf("%T holds\n%s\nwant\n%s", to, got, first)
		}
	}
}

// lines returns an export without its header.
func lines(t *testing.T, from store.Dumper) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := store.Export(t.Context(), from, store.Header{}, &b, nil); err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(b.String(), "\n")
	return rest
}

// live leaves traces of all that happens to timers. Names sort differently in most
// collations than byte by byte.
func live(t *testing.T, s *sqlite.Store) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var commands []timer.ScheduleTimer
	for i, tenant := range []timer.TenantID{"a", "A", "b", "B", "a-", "a_", "a0", "aA", "0"} {
		for n := range 100 {
			c := timer.ScheduleTimer{
				Key:     timer.Key{TenantID: tenant, ServiceCallID: timer.ServiceCallID(fmt.Sprintf("%c%d", "a_.:-Z"[n%6], n))},
				Version: timer.Version{TimestampMS: int64(i), CommandID: fmt.Sprint("command-", n)},
				DueAt:   noon.Add(time.Duration(n%50) * time.Millisecond),
			}
			if n%3 == 0 {
				c.CorrelationID = fmt.Sprintf(`"\%d<`, n)
				c.Trace = timer.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", State: "a=b"}
			}
			commands = append(commands, c)
		}
	}
	_, err := s.Schedule(t.Context(), noon.Add(-time.Hour), commands...)
	must(err)
	for _, c := range commands[90:110] {
		_, err := s.Cancel(t.Context(), noon, timer.CancelTimer{Key: c.Key, Version: timer.Version{TimestampMS: 100, CommandID: "cancel"}})
		must(err)
		c.ServiceCallID += "-tombstone"
		_, err = s.Cancel(t.Context(), noon, timer.CancelTimer{Key: c.Key, Version: timer.Version{TimestampMS: 1<<53 - 1, CommandID: "cancel"}})
		must(err)
	}
	must(s.Update(t.Context(), func(tx timer.Tx) error {
		entries, err := tx.Reach(t.Context(), noon.Add(20*time.Millisecond), 400, nil)
		if err != nil {
			return err
		}
		events := make([]timer.DueTimeReached, len(entries))
		for i, e := range entries {
			events[i] = e.Event()
		}
		return tx.Emit(t.Context(), events...)
	}))
	rows, err := s.Head(t.Context(), 0, 400)
	must(err)
	for i, row := range rows[:40] {
		must(s.Defer(t.Context(), outbox.Deferral{Seq: row.Seq, Destination: "events", Reason: fmt.Sprintf("no answer \x00\xff é %d", i), RetryAt: noon}))
		if i%2 == 0 {
			must(s.Park(t.Context(), noon.Add(time.Duration(i)*time.Second), row.Seq, "too large"))
		}
	}
	must(s.Delete(t.Context(), rows[50].Seq, rows[60].Seq))
}
