package sqlite_test

import (
	"testing"

	"github.com/event-service-agent/timer-service/store/storetest"
	"github.com/event-service-agent/timer-service/timer"
)

// TestRecoveredProperty runs the property on a file that the store opens itself.
func TestRecoveredProperty(t *testing.T) {
	t.Parallel()
	storetest.RecoveredProperty(t, 60, func(t testing.TB) storetest.Store { return openFile(t, relaxed) })
}

// TestNothingNewIsNotNoted has the database refuse every note.
func TestNothingNewIsNotNoted(t *testing.T) {
	t.Parallel()
	s := openFile(t, relaxed)
	at := timer.Position{Log: "commands", Committed: 5, Observed: 7}
	s.CommitPositions(func() []timer.Position { return []timer.Position{at} })
	note := func() error {
		_, err := s.Schedule(t.Context(), noon, schedule("call-1"))
		return err
	}
	must(t, note())
	for _, event := range []string{"INSERT", "UPDATE", "DELETE"} {
		exec(t, s.DB(), `CREATE TRIGGER refuse_`+event+` BEFORE `+event+` ON timer_positions BEGIN SELECT RAISE(ABORT, 'noted'); END`)
	}
	must(t, note()) // the same position
	at.Committed, at.Observed = 4, 6
	must(t, note()) // a lower one
	at.Observed = 8
	for range 2 { // what failed is new again
		if err := note(); err == nil {
			t.Error("a higher position was not noted")
		}
	}
	exec(t, s.DB(), `DROP TRIGGER refuse_INSERT`, `DROP TRIGGER refuse_UPDATE`)
	must(t, note())
	n, err := s.Noted(t.Context())
	if err != nil || len(n.Positions) != 1 || n.Positions[0] != (timer.Position{Log: "commands", Committed: 5, Observed: 8}) {
		t.Errorf("noted %+v, %v", n, err)
	}
}
