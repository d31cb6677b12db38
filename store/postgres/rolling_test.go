package postgres_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/timer"
)

// A comment on the table of versions says which instances may go on.
const goOn = `COMMENT ON TABLE timer_schema IS 'schema %d, instances from %d on may go on'`

// TestInstanceGoesOnBesideANewerSchema has a newer binary migrate under an instance that
// runs: it goes on if the step says that it may, and an instance that starts does not.
func TestInstanceGoesOnBesideANewerSchema(t *testing.T) {
	t.Parallel()
	next := int(postgres.SchemaVersion) + 1
	for name, c := range map[string]struct {
		comment string
		may     bool
		applied int
	}{
		"a step that says it may":                       {fmt.Sprintf(goOn, next, postgres.SchemaVersion), true, next},
		"a step that says that an older one may":        {fmt.Sprintf(goOn, next, postgres.SchemaVersion-1), true, next},
		"a step that says nothing":                      {`SELECT 1`, false, next},
		"a step that says that it may not":              {fmt.Sprintf(goOn, next, next), false, next},
		"a step after one that said so, without a word": {fmt.Sprintf(goOn, next, postgres.SchemaVersion), false, next + 1},
		"a comment of another form":                     {`COMMENT ON TABLE timer_schema IS 'ours'`, false, next},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			s := open(t, url, relaxed)
			scheduled(t, s, "call-1")
			run(t, s.DB(), `ALTER TABLE timer_schedules ADD COLUMN added text`, c.comment,
				fmt.Sprintf(`INSERT INTO timer_schema (version_id, is_applied) VALUES (%d, true)`, c.applied))
			if err := postgres.CheckRunning(t.Context(), s); (err == nil) != c.may || !c.may && !errors.Is(err, timer.ErrFatal) {
				t.Errorf("the instance that runs: %v, may go on: %v", err, c.may)
			}
			if c.may {
				scheduled(t, s, "call-2")
			}
			if _, err := postgres.Open(t.Context(), url, relaxed); !errors.Is(err, timer.ErrFatal) {
				t.Errorf("an instance that starts: %v, want ErrFatal", err)
			}
		})
	}
}

// TestStepsSayWhoMayGoOn wants of each later step that it gives up locks, and says which
// instances may go on beside it.
func TestStepsSayWhoMayGoOn(t *testing.T) {
	t.Parallel()
	for version := int64(2); version <= postgres.SchemaVersion; version++ {
		names, err := fs.Glob(postgres.Migrations(), fmt.Sprintf("%05d_*.sql", version))
		if err != nil || len(names) != 1 {
			t.Fatalf("step %d: %v, %v", version, names, err)
		}
		text, err := fs.ReadFile(postgres.Migrations(), names[0])
		must(t, err)
		if !strings.Contains(string(text), "SET LOCAL lock_timeout = '2s';") {
			t.Errorf("%s has no SET LOCAL lock_timeout = '2s';", names[0])
		}
		if !strings.Contains(string(text), fmt.Sprintf("COMMENT ON TABLE timer_schema IS 'schema %d, instances from ", version)) {
			t.Errorf("%s says nothing of which instances may go on: see CONTRIBUTING.md", names[0])
		}
	}
}
