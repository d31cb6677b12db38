package postgres_test

import (
	"database/sql"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/store/storetest"
)

// TestEverySchemaIsMigrated migrates a database of each version, which must end with the
// schema of a new one, and lose no row. A new version needs a fixture, see
// [storetest.Fixture].
func TestEverySchemaIsMigrated(t *testing.T) {
	t.Parallel()
	whole, err := postgres.MigrationSQL(0)
	if err != nil {
		t.Fatal(err)
	}
	inSchema := regexp.MustCompile(`\bON \w+\.`) // of another name in each test
	schema := func(db *sql.DB) (all []string) {
		for _, text := range schemaOf(t, db) {
			all = append(all, inSchema.ReplaceAllString(text, "ON "))
		}
		return all
	}
	want := schema(migrated(t, pgtest.URL(t)))
	for version := int64(1); version <= postgres.SchemaVersion; version++ {
		t.Run(fmt.Sprint("schema ", version), func(t *testing.T) {
			t.Parallel()
			rest, err := postgres.MigrationSQL(version)
			if err != nil {
				t.Fatal(err)
			}
			db := handle(t, pgtest.URL(t))
			if _, err := db.ExecContext(t.Context(), storetest.Fixture(t, version, strings.TrimSuffix(whole, rest)), pgx.QueryExecModeSimpleProtocol); err != nil {
				t.Fatal(err)
			}
			if from, to, err := postgres.MigrateFrom(t.Context(), db); from != version || to != postgres.SchemaVersion || err != nil {
				t.Fatalf("migrated from %d to %d, %v", from, to, err)
			}
			if diff := cmp.Diff(want, schema(db)); diff != "" {
				t.Errorf("schema (-new +migrated):\n%s", diff)
			}
			s := postgres.New(db, relaxed)
			defer s.Close()
			storetest.Migrated(t, version, s)
		})
	}
}
