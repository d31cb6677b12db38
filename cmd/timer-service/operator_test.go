package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// TestReadsOfEventsThatWait has an event in the outbox, of a timer that fired, and
// timers that are overdue.
func TestReadsOfEventsThatWait(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "timers.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	past := time.Now().Add(-3 * time.Minute).Truncate(time.Millisecond)
	for i, due := range []time.Time{past, past.Add(time.Second), past.Add(time.Hour)} {
		if _, err := s.Schedule(t.Context(), past, timer.ScheduleTimer{
			Key: timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(fmt.Sprint("a-", i))}, Version: timer.Version{CommandID: "c"}, DueAt: due,
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Update(t.Context(), func(tx timer.Tx) error {
		entries, err := tx.Reach(t.Context(), past, 10, nil)
		if err != nil {
			return err
		}
		return tx.Emit(t.Context(), entries[0].Event())
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	environ := []string{"TIMER_DB_PATH=" + path}
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{[]string{"get", "acme", "a-0"}, []string{"event          waits for the broker since", "minutes ago)"}},
		{[]string{"get", "acme", "a-0", "-o", "json"}, []string{`"event":{"id":"`, `"state":"waiting","since":"`}},
		{[]string{"stats"}, []string{"overdue        1\nsince          ", "undelivered    1\ndue at         ", "minutes ago)"}},
		{[]string{"stats", "-o", "json"}, []string{`"overdue":1,"oldestOverdue":"`, `"outbox":1,"oldest":"`, `"oldestDue":"`}},
		{[]string{"stats", "acme"}, []string{"overdue        1\nsince"}},
		{[]string{"stats", "--tenants"}, []string{"minutes ago  fires"}},
		{[]string{"list", "--due-within", "1h"}, []string{"acme    a-1", "acme    a-2", "minutes ago", "minutes from now"}},
	} {
		got := do(t, environ, tt.args...).wants(t, exitOK).stdout
		for _, want := range tt.want {
			if !strings.Contains(got, want) {
				t.Errorf("%v lacks %q:\n%s", tt.args, want, got)
			}
		}
	}
	do(t, environ, "list", "--due-within", "1h", "--after", "x").wants(t, exitUsage)
}
