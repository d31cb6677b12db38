package postgres_test

import (
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/timer"
)

// TestRegisteredBeforeGoesByTheCommand has a command that was handled an hour after its
// producer sent it.
func TestRegisteredBeforeGoesByTheCommand(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.URL(t), relaxed)
	command := schedule("call-1")
	command.TimestampMS = noon.Add(-time.Hour).UnixMilli()
	if _, err := s.Schedule(t.Context(), noon, command); err != nil {
		t.Fatal(err)
	}
	for before, want := range map[time.Time]timer.Unprotected{
		noon.Add(-time.Hour):   {Before: noon.Add(-time.Hour)},
		noon.Add(-time.Minute): {Before: noon.Add(-time.Minute), Timers: 1, Oldest: noon.Add(-time.Hour)},
	} {
		if u, err := s.RegisteredBefore(t.Context(), before, 10); err != nil || u != want {
			t.Errorf("before %v: %+v, %v, want %+v", before, u, err, want)
		}
	}
	if u, err := s.RegisteredBefore(t.Context(), noon, 1); err != nil || !u.More || u.Timers != 1 {
		t.Errorf("of one that is looked at: %+v, %v", u, err)
	}
}
