package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/store/sqlite"
)

// TestServeRefusesANewerSchema starts a service on a database that a newer one has
// migrated by one step: it ends, says what to do, and changes nothing.
func TestServeRefusesANewerSchema(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, version int64, arguments ...string) {
		t.Helper()
		p := start(t, "main", append([]string{"serve", "--broker", "gochannel"}, arguments...)...)
		want := fmt.Sprintf("the schema of the database has version %d, this binary knows %d: use a newer binary", version+1, version)
		if code := p.ends(t); code != exitFailure || !strings.Contains(p.stderr.String(), want) {
			t.Errorf("exit code %d, want %d and %q\n%s", code, exitFailure, want, p.stderr.String())
		}
	}
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "timers.db")
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.DB().ExecContext(t.Context(), `INSERT INTO timer_schema (version_id, is_applied) VALUES (?, 1)`, sqlite.SchemaVersion+1); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		check(t, sqlite.SchemaVersion, "--db-path", path)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		at := pgtest.URL(t)
		s, err := postgres.Open(t.Context(), at, postgres.Options{Durability: postgres.Relaxed})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.DB().ExecContext(t.Context(), `INSERT INTO timer_schema (version_id, is_applied) VALUES ($1, true)`, postgres.SchemaVersion+1); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		check(t, postgres.SchemaVersion, "--db-url", at)
	})
}
