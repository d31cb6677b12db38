package postgres_test

import (
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/timer"
)

func TestMigrateTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	db := migrated(t, pgtest.URL(t))
	before := schemaOf(t, db)
	from, to, err := postgres.MigrateFrom(t.Context(), db)
	if err != nil || from != postgres.SchemaVersion || to != postgres.SchemaVersion {
		t.Errorf("migrated from %d to %d, %v", from, to, err)
	}
	if diff := cmp.Diff(before, schemaOf(t, db)); diff != "" {
		t.Errorf("schema (-before +after):\n%s", diff)
	}
}

// TestMigrationByHand applies what is printed for people.
func TestMigrationByHand(t *testing.T) {
	t.Parallel()
	inSchema := regexp.MustCompile(`\bON \w+\.`) // of another name in each test
	schema := func(db *sql.DB) (all []string) {
		for _, text := range schemaOf(t, db) {
			all = append(all, inSchema.ReplaceAllString(text, "ON "))
		}
		return all
	}
	want := schema(migrated(t, pgtest.URL(t)))
	whole, err := postgres.MigrationSQL(0)
	if err != nil {
		t.Fatal(err)
	}
	for from := range postgres.SchemaVersion + 1 {
		rest, err := postgres.MigrationSQL(from)
		if err != nil {
			t.Fatal(err)
		}
		first, is := strings.CutSuffix(whole, rest)
		if !is {
			t.Fatalf("the steps from %d are not the end of all", from)
		}
		db := handle(t, pgtest.URL(t))
		apply := func(script string) {
			t.Helper()
			if _, err := db.ExecContext(t.Context(), script, pgx.QueryExecModeSimpleProtocol); err != nil {
				t.Fatal(err)
			}
		}
		apply(first)
		if v, err := postgres.VersionOf(t.Context(), db); v != from || err != nil {
			t.Errorf("version %d, %v, want %d", v, err, from)
		}
		apply(rest)
		if err := postgres.Verify(t.Context(), db); err != nil {
			t.Errorf("from %d: %v", from, err)
		}
		if _, to, err := postgres.MigrateFrom(t.Context(), db); err != nil || to != postgres.SchemaVersion {
			t.Errorf("from %d: migrated to %d, %v", from, to, err)
		}
		if diff := cmp.Diff(want, schema(db)); diff != "" {
			t.Errorf("from %d: schema (-want +got):\n%s", from, diff)
		}
	}
}

// TestMigrateBesideAHost migrates a database that has a goose of its own, at
// another version.
func TestMigrateBesideAHost(t *testing.T) {
	t.Parallel()
	db := handle(t, pgtest.URL(t))
	run(t, db, `CREATE TABLE goose_db_version (id integer PRIMARY KEY, version_id bigint, is_applied boolean, tstamp timestamp)`,
		`INSERT INTO goose_db_version (id, version_id, is_applied) VALUES (1, 0, true), (2, 99, true)`)
	if err := errors.Join(postgres.Migrate(t.Context(), db), postgres.Verify(t.Context(), db)); err != nil {
		t.Error(err)
	}
}

// TestManyOpenAtOnce starts eight instances on an empty database.
// TestMigrationsOfAHost applies the migrations with a goose of the host's.
func TestMigrationsOfAHost(t *testing.T) {
	t.Parallel()
	db := handle(t, pgtest.URL(t))
	provider, err := goose.NewProvider(goose.DialectPostgres, db, postgres.Migrations(),
		goose.WithTableName(postgres.VersionTable), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if err := postgres.Verify(t.Context(), db); err == nil {
		t.Error("a database without tables was found good")
	}
	if _, err := provider.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Verify(t.Context(), db); err != nil {
		t.Error(err)
	}
	scheduled(t, postgres.New(db, relaxed), "call-1")
}

func TestManyOpenAtOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			s, err := postgres.Open(t.Context(), url, relaxed)
			if err != nil {
				t.Error(err)
				return
			}
			if err := errors.Join(postgres.Verify(t.Context(), s.DB()), s.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	db := handle(t, url)
	var steps int
	if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM timer_schema WHERE version_id > 0`).Scan(&steps); err != nil || int64(steps) != postgres.SchemaVersion {
		t.Errorf("%d steps were applied, %v, want %d", steps, err, postgres.SchemaVersion)
	}
}

func TestNewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	db := migrated(t, url)
	run(t, db, `INSERT INTO timer_schema (version_id, is_applied) VALUES (17, true)`)
	_, opened := postgres.Open(t.Context(), url, relaxed)
	_, read := postgres.OpenReader(t.Context(), url)
	_, scheduled := postgres.New(db, relaxed).Schedule(t.Context(), noon, schedule("call-1"))
	for what, err := range map[string]error{
		"Open": opened, "OpenReader": read, "New": scheduled,
		"Migrate": postgres.Migrate(t.Context(), db), "Verify": postgres.Verify(t.Context(), db),
		"Prepare": postgres.New(db, relaxed).Prepare(t.Context()), "Watch": postgres.New(db, relaxed).Watch(t.Context()),
	} {
		if !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), fmt.Sprintf("version 17, this binary knows %d", postgres.SchemaVersion)) {
			t.Errorf("%s: %v, want ErrFatal with both versions", what, err)
		}
	}
}

// TestDatabaseFromBeforeTheRelease has a table of versions by its former name.
func TestDatabaseFromBeforeTheRelease(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	db := handle(t, url)
	run(t, db, `CREATE TABLE timer_schema_version (version_id bigint)`, `INSERT INTO timer_schema_version VALUES (1)`)
	_, opened := postgres.Open(t.Context(), url, relaxed)
	_, read := postgres.OpenReader(t.Context(), url)
	_, version := postgres.VersionOf(t.Context(), db)
	for what, err := range map[string]error{
		"Open": opened, "OpenReader": read, "VersionOf": version,
		"Migrate": postgres.Migrate(t.Context(), db), "Verify": postgres.Verify(t.Context(), db),
	} {
		if !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), "before release 0.1.0") {
			t.Errorf("%s: %v, want ErrFatal that says how to move", what, err)
		}
	}
}

// TestIdleInstanceNotices has a newer binary migrate under one that runs.
func TestIdleInstanceNotices(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.URL(t), relaxed)
	watched := make(chan error)
	go func() { watched <- s.Watch(t.Context()) }()
	run(t, s.DB(), `INSERT INTO timer_schema (version_id, is_applied) VALUES (17, true)`)
	if err := <-watched; !errors.Is(err, timer.ErrFatal) {
		t.Errorf("watch: %v, want ErrFatal", err)
	}
}

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

func TestOlderSchemaIsNotRead(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	_, read := postgres.OpenReader(t.Context(), url)
	for what, err := range map[string]error{"OpenReader": read, "Verify": postgres.Verify(t.Context(), handle(t, url))} {
		if err == nil || errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), fmt.Sprintf("version 0, this binary needs %d: run", postgres.SchemaVersion)) {
			t.Errorf("%s: %v, want one that says how to migrate", what, err)
		}
	}
}

// TestRowsKeepTheInvariants writes rows by hand that break them.
func TestRowsKeepTheInvariants(t *testing.T) {
	t.Parallel()
	db := migrated(t, pgtest.URL(t))
	const insert = `INSERT INTO timer_schedules
		(tenant_id, service_call_id, due_at, registered_at, reached_at, canceled_at, state, command_at, command_id) VALUES `
	const early, due = "'2030-05-17 11:59Z'", "'2030-05-17 12:00Z'"
	run(t, db, insert+`('acme', 'good', `+due+`, `+due+`, `+due+`, NULL, 'Reached', 1, 'c')`)
	for row, constraint := range map[string]string{
		`('', 'x', ` + due + `, now(), NULL, NULL, 'Scheduled', 1, 'c')`:                       "tenant_id_has_1_to_64_characters",
		`('acme', '', ` + due + `, now(), NULL, NULL, 'Scheduled', 1, 'c')`:                    "service_call_id_has_1_to_128_characters",
		`('acme', 'x', ` + due + `, now(), NULL, NULL, 'Scheduled', 1, '')`:                    "command_id_has_1_to_128_characters",
		`('acme', 'x', ` + due + `, now(), NULL, NULL, 'Scheduled', -1, 'c')`:                  "command_at_is_not_negative",
		`('acme', 'x', ` + due + `, now(), NULL, NULL, 'Waiting', 1, 'c')`:                     "state_is_known",
		`('acme', 'x', NULL, now(), NULL, NULL, 'Scheduled', 1, 'c')`:                          "only_a_tombstone_has_no_due_at",
		`('acme', 'x', ` + due + `, now(), NULL, NULL, 'Reached', 1, 'c')`:                     "reached_at_goes_with_a_mark",
		`('acme', 'x', ` + due + `, now(), ` + due + `, NULL, 'Scheduled', 1, 'c')`:            "reached_at_goes_with_a_mark",
		`('acme', 'x', ` + due + `, now(), NULL, NULL, 'Canceled', 1, 'c')`:                    "canceled_at_goes_with_canceled",
		`('acme', 'x', ` + due + `, now(), NULL, now(), 'Scheduled', 1, 'c')`:                  "canceled_at_goes_with_canceled",
		`('acme', 'x', ` + due + `, now(), ` + early + `, NULL, 'Reached', 1, 'c')`:            "never_early",
		`('acme', 'good', ` + due + `, now(), NULL, NULL, 'Scheduled', 1, 'c')`:                "duplicate key",
		`('acme', 'x', ` + due + `, NULL, NULL, NULL, 'Scheduled', 1, 'c')`:                    "not-null",
		`('` + strings.Repeat("a", 65) + `', 'x', ` + due + `, now(), NULL, NULL, 'R', 1, '')`: "check",
	} {
		if _, err := db.ExecContext(t.Context(), insert+row); err == nil || !strings.Contains(err.Error(), constraint) {
			t.Errorf("%s: %v, want it refused by %s", row, err, constraint)
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

// TestViewForPeople reads the same rows with times in ISO 8601, in any time zone.
func TestViewForPeople(t *testing.T) {
	t.Parallel()
	db := migrated(t, pgtest.URL(t)+"&timezone=Asia/Kathmandu&datestyle=SQL,DMY&intervalstyle=postgres_verbose")
	s := postgres.New(db, relaxed)
	if _, err := s.Schedule(t.Context(), noon.Add(7e6), schedule("call-1")); err != nil {
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), func(tx timer.Tx) error {
		_, err := tx.Reach(t.Context(), noon.Add(999e6), 1, nil)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var got [4]string
	var canceled *string
	if err := db.QueryRowContext(t.Context(),
		`SELECT due_at, registered_at, reached_at, command_at, canceled_at FROM timer_schedules_iso WHERE state = 'Reached'`).
		Scan(&got[0], &got[1], &got[2], &got[3], &canceled); err != nil {
		t.Fatal(err)
	}
	want := [4]string{"2030-05-17T12:00:00.000Z", "2030-05-17T12:00:00.007Z", "2030-05-17T12:00:00.999Z", "1970-01-01T00:00:00.001Z"}
	if got != want || canceled != nil {
		t.Errorf("got %v, canceled %v, want %v, none", got, canceled, want)
	}
	if e := get(t, s, "call-1"); !e.DueAt.Equal(noon) || !e.ReachedAt.Equal(noon.Add(999e6)) {
		t.Errorf("reached at %v, due at %v", e.ReachedAt, e.DueAt)
	}
}

// schemaOf describes columns, indexes, constraints and triggers, sorted.
func schemaOf(t *testing.T, db *sql.DB) (all []string) {
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
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}
