package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/store/storetest"
	"github.com/event-service-agent/timer-service/timer"
)

// TestRecoveredProperty runs the property on a file that the store opens itself.
func TestRecoveredProperty(t *testing.T) {
	t.Parallel()
	storetest.RecoveredProperty(t, 60, func(t testing.TB) storetest.Store { return openFile(t, sqlite.Options{Durability: sqlite.Relaxed}) })
}

// TestNothingNewIsNotNoted has the database refuse every note.
func TestNothingNewIsNotNoted(t *testing.T) {
	t.Parallel()
	s := openFile(t, sqlite.Options{Durability: sqlite.Relaxed})
	at := timer.Position{Log: "commands", Committed: 5, Observed: 7}
	s.CommitPositions(func() []timer.Position { return []timer.Position{at} })
	cancel := func() error {
		_, err := s.Cancel(t.Context(), noon, timer.CancelTimer{Key: timer.Key{TenantID: "acme", ServiceCallID: "call"}, Version: timer.Version{CommandID: "command"}})
		return err
	}
	if err := cancel(); err != nil {
		t.Fatal(err)
	}
	for _, event := range []string{"INSERT", "UPDATE", "DELETE"} {
		exec(t, s.DB(), `CREATE TRIGGER refuse_`+event+` BEFORE `+event+` ON timer_positions BEGIN SELECT RAISE(ABORT, 'noted'); END`)
	}
	if err := cancel(); err != nil {
		t.Errorf("with the same position: %v", err)
	}
	at.Committed, at.Observed = 4, 6
	if err := cancel(); err != nil {
		t.Errorf("with a lower position: %v", err)
	}
	at.Observed = 8
	for range 2 { // what failed is new again
		if err := cancel(); err == nil {
			t.Error("a higher position was not noted")
		}
	}
	exec(t, s.DB(), `DROP TRIGGER refuse_INSERT`, `DROP TRIGGER refuse_UPDATE`)
	if err := cancel(); err != nil {
		t.Error(err)
	}
	n, err := s.Noted(t.Context())
	if err != nil || len(n.Positions) != 1 || n.Positions[0] != (timer.Position{Log: "commands", Committed: 5, Observed: 8}) {
		t.Errorf("noted %+v, %v", n, err)
	}
}

// TestABackupHasThePositions restores a copy that was made before the last commands.
func TestABackupHasThePositions(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path, to := filepath.Join(folder, "timers.db"), filepath.Join(folder, "copy.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{Durability: sqlite.Relaxed})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	done := int64(1)
	s.CommitPositions(func() []timer.Position { return []timer.Position{{Log: "commands", Committed: done, Observed: done}} })
	cancel := func() {
		t.Helper()
		if _, err := s.Cancel(t.Context(), noon, timer.CancelTimer{Key: timer.Key{TenantID: "acme", ServiceCallID: "call"}, Version: timer.Version{TimestampMS: done, CommandID: "command"}}); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := sqlite.Backup(t.Context(), path, to); err != nil {
		t.Fatal(err)
	}
	done = 2
	cancel()
	copied, err := sqlite.Open(t.Context(), to, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	n, err := copied.Noted(t.Context())
	if err != nil || len(n.Positions) != 1 || n.Positions[0].Committed != 1 || n.Empty {
		t.Errorf("the copy has noted %+v, %v", n, err)
	}
	if n, err = s.Noted(t.Context()); err != nil || n.Positions[0].Committed != 2 {
		t.Errorf("noted %+v, %v", n, err)
	}
}
