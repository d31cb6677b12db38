package postgres_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/timer"
)

// TestServiceNeedsFewRights lets a role work that owns nothing, after another role
// has migrated: the rights that docs/deploying.md names.
func TestServiceNeedsFewRights(t *testing.T) {
	t.Parallel()
	place := withFewRights(t, pgtest.URL(t))
	s, err := postgres.Open(t.Context(), place, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, _, err := s.Identity(t.Context()); err != nil {
		t.Error(err)
	}
	s.CommitPositions(func() []timer.Position { return []timer.Position{{Log: "commands", Committed: 1, Observed: 1}} })
	if err := s.Alone(t.Context(), func(ctx context.Context) error {
		return s.ReplacePositions(ctx, []timer.Position{{Log: "events", Observed: 1}})
	}); err != nil {
		t.Error(err)
	}
	if other, err := s.Attach(t.Context(), "here", "nats://here", false); err != nil || other != "" {
		t.Errorf("attach: %q is used, %v", other, err)
	}
	lead := own(t, s)
	defer lead.Release()
	key := timer.Key{TenantID: "acme", ServiceCallID: "call-1"}
	version := timer.Version{TimestampMS: 1, CommandID: "command"}
	if _, err := s.Schedule(t.Context(), noon, timer.ScheduleTimer{Key: key, Version: version, DueAt: noon}); err != nil {
		t.Error(err)
	}
	if err := s.Update(t.Context(), func(tx timer.Tx) error {
		entries, err := tx.Reach(t.Context(), noon, 10, nil)
		if err != nil {
			return err
		}
		return tx.Emit(t.Context(), entries[0].Event())
	}); err != nil {
		t.Error(err)
	}
	rows, err := lead.Head(t.Context(), 0, 10)
	if err != nil || len(rows) != 1 {
		t.Fatalf("%d events, %v", len(rows), err)
	}
	if err := lead.Park(t.Context(), noon, rows[0].Place, "refused"); err != nil {
		t.Error(err)
	}
	if _, err := s.Cancel(t.Context(), noon, timer.CancelTimer{Key: timer.Key{TenantID: "acme", ServiceCallID: "call-2"}, Version: version}); err != nil {
		t.Error(err)
	}
	if n, err := s.Purge(t.Context(), noon.Add(time.Hour), 10); n != 2 || err != nil {
		t.Errorf("purged %d, %v", n, err)
	}
	st, err := s.Stats(t.Context(), "")
	if err != nil || st != (timer.Stats{Parked: 1}) {
		t.Errorf("stats %+v, %v", st, err)
	}
	if n, err := s.RetryParked(t.Context(), noon, rows[0].Seq); n != 1 || err != nil {
		t.Errorf("retried %d, %v", n, err)
	}
	if n, err := s.DiscardParked(t.Context(), rows[0].Seq); n != 0 || err != nil {
		t.Errorf("discarded %d, %v", n, err)
	}
	if c, err := s.Forget(t.Context(), "acme", 10); c != (timer.Counts{}) || err != nil {
		t.Errorf("forgot %+v, %v", c, err)
	}
	if err := s.PauseFiring(t.Context(), timer.Pause{TenantID: "acme", Since: noon}); err != nil {
		t.Error(err)
	}
	if err := s.ResumeFiring(t.Context(), "acme"); err != nil {
		t.Error(err)
	}
	if nodes, err := s.Nodes(t.Context()); err != nil || len(nodes) != 1 || !nodes[0].Self {
		t.Errorf("nodes %+v, %v", nodes, err)
	}
	if n, err := s.Fired(t.Context(), time.Hour, timer.DueTimeReached{Key: key, DueAt: noon, ReachedAt: noon}); n != 1 || err != nil {
		t.Errorf("brought in %d, %v", n, err)
	}
	if n, err := s.Noted(t.Context()); err != nil || len(n.Positions) != 2 || n.Empty {
		t.Errorf("noted %+v, %v", n, err)
	}
	if _, err := s.DB().ExecContext(t.Context(), `DROP TABLE timer_outbox`); err == nil || !strings.Contains(err.Error(), "owner") {
		t.Errorf("the role may drop a table: %v", err)
	}
}

// withFewRights migrates a schema, and returns its URL for a role that has the
// rights that docs/deploying.md names, and no others.
func withFewRights(t testing.TB, place string) string {
	t.Helper()
	admin := migrated(t, place)
	u, err := url.Parse(place)
	if err != nil {
		t.Fatal(err)
	}
	schema := u.Query().Get("search_path")
	role := "role_of_" + schema
	for _, text := range []string{
		`CREATE ROLE ` + role + ` LOGIN PASSWORD 'few rights'`,
		`GRANT USAGE ON SCHEMA ` + schema + ` TO ` + role,
		`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ` + schema + ` TO ` + role,
	} {
		if _, err := admin.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if _, err := admin.ExecContext(context.WithoutCancel(t.Context()), fmt.Sprintf(`DROP OWNED BY %s; DROP ROLE %s`, role, role)); err != nil {
			t.Error(err)
		}
	})
	u.User = url.UserPassword(role, "few rights")
	return u.String()
}
