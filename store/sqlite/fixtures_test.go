package sqlite_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/store/storetest"
)

// TestEverySchemaIsMigrated migrates a database of each version, which must end with the
// schema of a new one, and lose no row. A new version needs a fixture, see
// [storetest.Fixture].
func TestEverySchemaIsMigrated(t *testing.T) {
	t.Parallel()
	whole, err := sqlite.MigrationSQL(0)
	if err != nil {
		t.Fatal(err)
	}
	words := func(db *sql.DB) (all []string) { // whatever the spaces
		for _, text := range schemaOf(t, db) {
			all = append(all, strings.Join(strings.Fields(text), " "))
		}
		return all
	}
	want := words(openHost(t))
	for version := int64(1); version <= sqlite.SchemaVersion; version++ {
		t.Run(fmt.Sprint("schema ", version), func(t *testing.T) {
			t.Parallel()
			rest, err := sqlite.MigrationSQL(version)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "timers.db")
			db, err := sql.Open("sqlite", sqlite.DSN(path))
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			exec(t, db, storetest.Fixture(t, version, strings.TrimSuffix(whole, rest)))
			if v, err := sqlite.VersionOf(t.Context(), path); v != version || err != nil {
				t.Fatalf("the fixture is of version %d, %v, want %d", v, err, version)
			}
			if from, to, err := sqlite.MigrateFrom(t.Context(), db); from != version || to != sqlite.SchemaVersion || err != nil {
				t.Fatalf("migrated from %d to %d, %v", from, to, err)
			}
			if diff := cmp.Diff(want, words(db)); diff != "" {
				t.Errorf("schema (-new +migrated):\n%s", diff)
			}
			s := sqlite.New(db, sqlite.Options{})
			defer s.Close()
			storetest.Migrated(t, version, s)
		})
	}
}
