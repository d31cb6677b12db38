package postgres_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/store/storetest"
	"github.com/event-service-agent/timer-service/timer"
)

// A comment on the table of versions says which instances may go on.
const goOn = `COMMENT ON TABLE timer_schema_version IS 'schema %d, instances from %d on may go on'`

// TestInstanceGoesOnBesideANewerSchema has a newer binary migrate under an instance that
// runs: it goes on if the step says that it may, and an instance that starts does not.
func TestInstanceGoesOnBesideANewerSchema(t *testing.T) {
	t.Parallel()
	const next = postgres.SchemaVersion + 1
	for name, c := range map[string]struct {
		comment string
		may     bool
		applied int
	}{
		"a step that says it may":                       {fmt.Sprintf(goOn, next, postgres.SchemaVersion), true, next},
		"a step that says that an older one may":        {fmt.Sprintf(goOn, next, 3), true, next},
		"a step that says nothing":                      {`SELECT 1`, false, next},
		"a step that says that it may not":              {fmt.Sprintf(goOn, next, next), false, next},
		"a step after one that said so, without a word": {fmt.Sprintf(goOn, next, postgres.SchemaVersion), false, next + 1},
		"a comment of another form":                     {`COMMENT ON TABLE timer_schema_version IS 'ours'`, false, next},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			s := open(t, url, relaxed)
			if _, err := s.Schedule(t.Context(), noon, schedule("call-1")); err != nil {
				t.Fatal(err)
			}
			run(t, s.DB(), `ALTER TABLE timer_schedules ADD COLUMN added text`, c.comment,
				fmt.Sprintf(`INSERT INTO timer_schema_version (version_id, is_applied) VALUES (%d, true)`, c.applied))
			if err := postgres.CheckRunning(t.Context(), s); (err == nil) != c.may || !c.may && !errors.Is(err, timer.ErrFatal) {
				t.Errorf("the instance that runs: %v, may go on: %v", err, c.may)
			}
			if c.may {
				if _, err := s.Schedule(t.Context(), noon, schedule("call-2")); err != nil {
					t.Error(err)
				}
			}
			if _, err := postgres.Open(t.Context(), url, relaxed); !errors.Is(err, timer.ErrFatal) {
				t.Errorf("an instance that starts: %v, want ErrFatal", err)
			}
		})
	}
}

// TestMigrationWaitsForNoLock has another transaction read the timers for long, as an
// export: a step gives up, so that no statement waits behind it, and comes again.
func TestMigrationWaitsForNoLock(t *testing.T) {
	t.Parallel()
	whole, err := postgres.MigrationSQL(0)
	if err != nil {
		t.Fatal(err)
	}
	const before = 6 // the next step changes timer_schedules
	rest, err := postgres.MigrationSQL(before)
	if err != nil {
		t.Fatal(err)
	}
	url := pgtest.URL(t)
	db := handle(t, url+"&lock_timeout=100")
	if _, err := db.ExecContext(t.Context(), storetest.Fixture(t, before, strings.TrimSuffix(whole, rest)), pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	reader, err := handle(t, url).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Rollback() }()
	if _, err := reader.ExecContext(t.Context(), `LOCK TABLE timer_schedules IN ACCESS SHARE MODE`); err != nil {
		t.Fatal(err)
	}
	migrated := make(chan error, 1)
	go func() { migrated <- postgres.Migrate(t.Context(), db) }()
	for _, want := range []int{1, 0} { // it waits, and then no more
		for waiting := -1; waiting != want; pause.For(t.Context(), 1e6) {
			if err := reader.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_locks
				WHERE relation = 'timer_schedules'::regclass AND NOT granted`).Scan(&waiting); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := reader.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(<-migrated, postgres.Verify(t.Context(), db)); err != nil {
		t.Error(err)
	}
}

// TestStepsSayWhoMayGoOn wants of each later step that it gives up locks, and says which
// instances may go on beside it.
func TestStepsSayWhoMayGoOn(t *testing.T) {
	t.Parallel()
	for version := 8; version <= postgres.SchemaVersion; version++ {
		names, err := fs.Glob(postgres.Migrations(), fmt.Sprintf("%05d_*.sql", version))
		if err != nil || len(names) != 1 {
			t.Fatalf("step %d: %v, %v", version, names, err)
		}
		text, err := fs.ReadFile(postgres.Migrations(), names[0])
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "SET LOCAL lock_timeout = '2s';") {
			t.Errorf("%s has no SET LOCAL lock_timeout = '2s';", names[0])
		}
		if !strings.Contains(string(text), fmt.Sprintf("COMMENT ON TABLE timer_schema_version IS 'schema %d, instances from ", version)) {
			t.Errorf("%s says nothing of which instances may go on: see docs/upgrading.md", names[0])
		}
	}
}
