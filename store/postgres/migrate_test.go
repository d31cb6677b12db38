package postgres_test

import (
	"errors"
	"testing"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/timer"
)

// TestTablesAreTaken drops tables under a store that runs.
func TestTablesAreTaken(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.URL(t), relaxed)
	run(t, s.DB(), `DROP TABLE timer_schedules CASCADE`)
	_, scheduled := s.Schedule(t.Context(), noon, schedule("call-1"))
	_, next := s.NextDue(t.Context(), noon)
	for what, err := range map[string]error{"Schedule": scheduled, "NextDue": next} {
		if !errors.Is(err, timer.ErrFatal) {
			t.Errorf("%s: %v, want ErrFatal", what, err)
		}
	}
}

// TestTimesAreWholeMilliseconds writes one by hand that is not.
func TestTimesAreWholeMilliseconds(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.URL(t), relaxed)
	run(t, s.DB(), `INSERT INTO timer_schedules (tenant_id, service_call_id, due_at, registered_at, state, command_at, command_id)
		VALUES ('acme', 'call-1', '2030-05-17 12:00:00.000499Z', '2030-05-17 12:00:00.001501Z', 'Scheduled', 1, 'c')`)
	if e := get(t, s, "call-1"); !e.DueAt.Equal(noon) || !e.RegisteredAt.Equal(noon.Add(2e6)) {
		t.Errorf("due at %v, registered at %v", e.DueAt, e.RegisteredAt)
	}
}
