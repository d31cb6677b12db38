package postgres_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store/postgres"
)

// TestInstancesNeedFewRights for what they share: the role owns nothing, and another one has
// migrated. What else they need is in [TestOwnHandle].
func TestInstancesNeedFewRights(t *testing.T) {
	t.Parallel()
	place := withFewRights(t, pgtest.URL(t))
	s, err := postgres.Open(t.Context(), place, postgres.Options{})
	must(t, err)
	defer s.Close()
	if other, err := s.Attach(t.Context(), "here", "nats://here", false); err != nil || other != "" {
		t.Errorf("attach: %q is used, %v", other, err)
	}
	must(t, s.Alone(t.Context(), func(context.Context) error { return nil }))
	lead := own(t, s)
	defer lead.Release()
	takeOver(t, s)
	if nodes, err := s.Nodes(t.Context()); err != nil || len(nodes) != 1 || !nodes[0].Self {
		t.Errorf("nodes %+v, %v", nodes, err)
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
	must(t, err)
	schema := u.Query().Get("search_path")
	role := "role_of_" + schema
	for _, text := range []string{
		`CREATE ROLE ` + role + ` LOGIN PASSWORD 'few rights'`,
		`GRANT USAGE ON SCHEMA ` + schema + ` TO ` + role,
		`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ` + schema + ` TO ` + role,
	} {
		run(t, admin, text)
	}
	t.Cleanup(func() {
		if _, err := admin.ExecContext(context.WithoutCancel(t.Context()), fmt.Sprintf(`DROP OWNED BY %s; DROP ROLE %s`, role, role)); err != nil {
			t.Error(err)
		}
	})
	u.User = url.UserPassword(role, "few rights")
	return u.String()
}
