package postgres_test

import (
	"context"
	"database/sql"
	"log/slog"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3"

	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/store/storetest"
	"github.com/event-service-agent/timer-service/timer"
)

// TestOwnHandle runs the contract on a database that the store opens itself, with the rights
// that docs/deploying.md names.
func TestOwnHandle(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Store { return open(t, withFewRights(t, pgtest.URL(t)), relaxed) })
}

// TestDatabase runs the tests that all kinds of databases have.
func TestDatabase(t *testing.T) {
	t.Parallel()
	storetest.RunDatabase(t, kind)
}

// TestHostHandle runs the contract on the handle of a host, which prepares its
// statements as pgx does by default.
func TestHostHandle(t *testing.T) {
	t.Parallel()
	longtest.NotShort(t)
	storetest.Run(t, func(t testing.TB) storetest.Store { return postgres.New(migrated(t, pgtest.URL(t)), relaxed) })
}

// TestTogether runs two stores on one database.
func TestTogether(t *testing.T) {
	t.Parallel()
	storetest.Together(t, func(t testing.TB) (a, b storetest.Store) {
		url := pgtest.URL(t)
		return open(t, url, relaxed), open(t, url, relaxed)
	})
}

func BenchmarkPostgres(b *testing.B) {
	storetest.Bench(b, func(t testing.TB) storetest.Store { return open(t, pgtest.URL(t), postgres.Options{}) })
}

var (
	noon                = storetest.Noon()
	must, run           = storetest.Must, storetest.Exec
	schedule, scheduled = storetest.Timer, storetest.Schedule
	cancel, canceled    = storetest.Cancellation, storetest.Cancel
	get                 = storetest.Get
)

// relaxed is what tests need: the power is not cut.
var relaxed = postgres.Options{Durability: postgres.Relaxed}

// kind is PostgreSQL, for the tests that all kinds of databases have. Sessions show times in
// ways of their own.
var kind = storetest.Kind{
	Package: "postgres", Dialect: goose.DialectPostgres, Version: postgres.SchemaVersion, VersionTable: postgres.VersionTable,
	Empty: func(t testing.TB) string {
		return pgtest.URL(t) + "&timezone=Asia/Kathmandu&datestyle=SQL,DMY&intervalstyle=postgres_verbose"
	},
	Handle: handle,
	Exec: func(t testing.TB, db *sql.DB, script string) {
		t.Helper()
		_, err := db.ExecContext(t.Context(), script, pgx.QueryExecModeSimpleProtocol)
		must(t, err)
	},
	Schema: schemaOf,
	Time:   func(at time.Time) string { return "'" + at.UTC().Format(time.RFC3339) + "'" },
	Refuse: refuse,
	Open: func(ctx context.Context, url string, log *slog.Logger) (storetest.OpenStore, error) {
		return postgres.Open(ctx, url, postgres.Options{Durability: postgres.Relaxed, Log: log})
	},
	OpenReader: func(ctx context.Context, url string) (storetest.OpenReader, error) {
		return postgres.OpenReader(ctx, url)
	},
	New:        func(db *sql.DB) storetest.OpenStore { return postgres.New(db, relaxed) },
	Migrations: postgres.Migrations, MigrationSQL: postgres.MigrationSQL, MigrateFrom: postgres.MigrateFrom, Verify: postgres.Verify,
	VersionOf: func(ctx context.Context, url string) (int64, error) {
		db, err := postgres.Connect(url)
		if err != nil {
			return 0, err
		}
		defer db.Close()
		return postgres.VersionOf(ctx, db)
	},
	ReferenceServiceCalls: postgres.ReferenceServiceCalls,
}

func refuse(table string) (refuse, allow string) {
	return `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'written'; END $$;
		CREATE TRIGGER refuse BEFORE INSERT OR UPDATE OR DELETE ON ` + table + ` FOR EACH STATEMENT EXECUTE FUNCTION refuse()`, `DROP TRIGGER refuse ON ` + table
}

func open(t testing.TB, url string, opt postgres.Options) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), url, opt)
	return storetest.Opened(t, s, err)
}

// migrated returns the handle of a host.
func migrated(t testing.TB, url string) *sql.DB {
	t.Helper()
	db := handle(t, url)
	must(t, postgres.Migrate(t.Context(), db))
	return db
}

func handle(t testing.TB, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", url)
	return storetest.Opened(t, db, err)
}

// reach returns the service calls that a transaction reaches at noon.
func reach(t testing.TB, s *postgres.Store, limit int) []timer.ServiceCallID {
	t.Helper()
	calls, err := storetest.Reach(t, s, noon, limit)
	if err != nil {
		t.Error(err)
	}
	return calls
}

// inSchema finds the name of a schema, which is another one in each test.
var inSchema = regexp.MustCompile(`\bON \w+\.`)

// schemaOf describes columns, indexes, constraints and triggers, sorted.
func schemaOf(t testing.TB, db *sql.DB) (all []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `
		SELECT 'column ' || table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable
		  FROM information_schema.columns WHERE table_schema = current_schema()
		 UNION ALL
		SELECT 'index ' || indexdef FROM pg_indexes WHERE schemaname = current_schema()
		 UNION ALL
		SELECT 'constraint ' || conname || ' ' || pg_get_constraintdef(oid) || ' ' || convalidated
		  FROM pg_constraint WHERE connamespace = current_schema()::regnamespace
		 UNION ALL
		SELECT 'trigger ' || tgname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
		 WHERE relnamespace = current_schema()::regnamespace AND NOT tgisinternal`)
	must(t, err)
	defer rows.Close()
	for rows.Next() {
		var text string
		must(t, rows.Scan(&text))
		all = append(all, inSchema.ReplaceAllString(text, "ON "))
	}
	must(t, rows.Err())
	slices.Sort(all)
	return all
}
