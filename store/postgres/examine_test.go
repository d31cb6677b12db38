package postgres_test

import (
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/internal/pgtest"
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
	for before, want := range map[time.Time]int64{noon.Add(-time.Hour): 0, noon.Add(-time.Minute): 1} {
		if n, err := s.RegisteredBefore(t.Context(), before, 10); err != nil || n != want {
			t.Errorf("before %v: %d, %v, want %d", before, n, err, want)
		}
	}
}
