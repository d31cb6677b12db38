package postgres_test

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/store/storetest"
	"github.com/event-service-agent/timer-service/timer"
)

// TestReferenceKeepsWhatIsThere checks that only the foreign key is added, that it
// is valid, also if it was left half done, and that timers go with their service
// calls and are counted.
func TestReferenceKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	for name, half := range map[string]bool{"at once": false, "after it was left half done": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			place := pgtest.URL(t)
			db := migrated(t, place)
			run(t, db, storetest.CreateServiceCalls, `INSERT INTO service_calls VALUES ('acme', 'call-1'), ('acme', 'call-2')`)
			s := postgres.New(db, relaxed)
			scheduled(t, s, "call-1", "call-2")
			before, entry := schemaOf(t, db), get(t, s, "call-1")
			const constraint = "timer_schedules_service_call FOREIGN KEY (tenant_id, service_call_id) REFERENCES service_calls(tenant_id, service_call_id) ON DELETE CASCADE"
			if half {
				run(t, db, `ALTER TABLE timer_schedules ADD CONSTRAINT `+constraint+` NOT VALID`)
			}
			for range 2 { // the second time changes nothing
				must(t, postgres.ReferenceServiceCalls(t.Context(), db))
			}
			var added []string
			for _, text := range schemaOf(t, db) {
				if !slices.Contains(before, text) {
					added = append(added, text)
				}
			}
			if diff := cmp.Diff([]string{"constraint " + constraint + " true"}, added); diff != "" {
				t.Errorf("added (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(entry, get(t, s, "call-1")); diff != "" {
				t.Errorf("timer (-before +after):\n%s", diff)
			}
			u, err := url.Parse(place)
			must(t, err)
			schema := u.Query().Get("search_path") // which a role that deletes need not have in its
			run(t, handle(t, pgtest.Server(t)), `DELETE FROM `+schema+`.service_calls WHERE service_call_id = 'call-1'`)
			if _, err := s.Get(t.Context(), schedule("call-1").Key); !errors.Is(err, timer.ErrNotFound) {
				t.Errorf("a timer whose service call was deleted: %v, want ErrNotFound", err)
			}
			counts, err := s.Stats(t.Context(), "acme")
			if want := (timer.Counts{Scheduled: 1}); err != nil || counts.Counts != want {
				t.Errorf("counts: %+v, %v, want %+v", counts, err, want)
			}
		})
	}
}

// TestReferenced runs the contract of a store with the foreign key.
func TestReferenced(t *testing.T) {
	t.Parallel()
	storetest.Referenced(t, func(t testing.TB, calls []timer.ServiceCallID) storetest.Store {
		s, _ := referenced(t, relaxed, calls)
		return s
	})
}

func BenchmarkReferenced(b *testing.B) {
	storetest.BenchReferenced(b, func(t testing.TB, calls []timer.ServiceCallID) storetest.Store {
		s, _ := referenced(t, postgres.Options{}, calls)
		return s
	})
}

// referenced returns a store on a database with the foreign key, and with service
// calls of acme.
func referenced(t testing.TB, opt postgres.Options, calls []timer.ServiceCallID) (*postgres.Store, *sql.DB) {
	t.Helper()
	db := migrated(t, pgtest.URL(t))
	run(t, db, storetest.CreateServiceCalls)
	if _, err := db.ExecContext(t.Context(), `INSERT INTO service_calls SELECT 'acme', unnest($1::text[])`, calls); err != nil {
		t.Fatal(err)
	}
	must(t, postgres.ReferenceServiceCalls(t.Context(), db))
	return postgres.New(db, opt), db
}

// TestOthersAreCommittedTogether has one command among a thousand refused.
func TestOthersAreCommittedTogether(t *testing.T) {
	t.Parallel()
	calls, commands := make([]timer.ServiceCallID, 1000), make([]timer.ScheduleTimer, 1000)
	for i := range calls {
		calls[i] = timer.ServiceCallID(fmt.Sprint("call-", i))
		commands[i] = schedule(calls[i])
		commands[i].CommandID = string(calls[i]) // each came in a message of its own
	}
	s, db := referenced(t, relaxed, calls[1:])
	_, err := s.Schedule(t.Context(), noon, commands...)
	must(t, err)
	var rows, transactions int
	must(t, db.QueryRowContext(t.Context(), `SELECT count(*), count(DISTINCT xmin::text) FROM timer_schedules`).Scan(&rows, &transactions))
	if rows != 999 || transactions != 1 {
		t.Errorf("%d timers of %d transactions, want 999 of one", rows, transactions)
	}
}

// TestHostRefusesOnlyWhatItNames has a host that refuses the timers of a tenant, by a
// constraint and by a trigger.
func TestHostRefusesOnlyWhatItNames(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"constraint": `ALTER TABLE timer_schedules ADD CONSTRAINT host CHECK (tenant_id <> 'refused')`,
		"trigger": `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not these'; END $$;
			CREATE TRIGGER refuse BEFORE INSERT ON timer_schedules FOR EACH ROW WHEN (NEW.tenant_id = 'refused') EXECUTE FUNCTION refuse()`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, db := referenced(t, relaxed, []timer.ServiceCallID{"call"})
			run(t, db, text)
			commands := []timer.ScheduleTimer{schedule("call"), schedule("call")}
			commands[0].TenantID = "refused"
			results, err := s.Schedule(t.Context(), noon, commands...)
			if err != nil || len(results) != 2 || !errors.Is(results[0].Err, timer.ErrInvalid) || results[1].Err != nil {
				t.Errorf("results %+v, %v", results, err)
			}
		})
	}
}
