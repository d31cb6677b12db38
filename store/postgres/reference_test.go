package postgres_test

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/store/storetest"
	"github.com/event-service-agent/timer-service/timer"
)

const createServiceCalls = `CREATE TABLE service_calls (
	tenant_id text NOT NULL, service_call_id text NOT NULL, PRIMARY KEY (tenant_id, service_call_id))`

// TestReferenceIsRefused for databases where it can't hold.
func TestReferenceIsRefused(t *testing.T) {
	t.Parallel()
	const timerOf = `INSERT INTO timer_schedules (tenant_id, service_call_id, due_at, registered_at, state, command_at, command_id)
		VALUES ('acme', 'call-1', now(), now(), 'Scheduled', 1, 'c')`
	for name, c := range map[string]struct {
		before []string
		want   string
	}{
		"no table":      {nil, "there is no table service_calls"},
		"other columns": {[]string{`CREATE TABLE service_calls (id text PRIMARY KEY, tenant_id text)`}, "there is no table service_calls with the columns"},
		"other key":     {[]string{`CREATE TABLE service_calls (id text PRIMARY KEY, tenant_id text, service_call_id text)`}, "needs the primary key"},
		"longer key": {[]string{`CREATE TABLE service_calls (tenant_id text, service_call_id text, n integer,
			PRIMARY KEY (tenant_id, service_call_id, n))`}, "needs the primary key"},
		"a timer without its service call": {[]string{createServiceCalls, timerOf}, "1 timers have no service call"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := migrated(t, pgtest.URL(t))
			run(t, db, c.before...)
			before := schemaOf(t, db)
			err := postgres.ReferenceServiceCalls(t.Context(), db)
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, timer.ErrFatal) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if diff := cmp.Diff(before, schemaOf(t, db)); diff != "" {
				t.Errorf("schema (-before +after):\n%s", diff)
			}
		})
	}
}

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
			run(t, db, createServiceCalls, `INSERT INTO service_calls VALUES ('acme', 'call-1'), ('acme', 'call-2')`)
			s := postgres.New(db, relaxed)
			scheduled(t, s, "call-1", "call-2")
			before, entry := schemaOf(t, db), get(t, s, "call-1")
			const constraint = "timer_schedules_service_call FOREIGN KEY (tenant_id, service_call_id) REFERENCES service_calls(tenant_id, service_call_id) ON DELETE CASCADE"
			if half {
				run(t, db, `ALTER TABLE timer_schedules ADD CONSTRAINT `+constraint+` NOT VALID`)
			}
			for range 2 { // the second time changes nothing
				if err := postgres.ReferenceServiceCalls(t.Context(), db); err != nil {
					t.Fatal(err)
				}
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
			if err != nil {
				t.Fatal(err)
			}
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
	run(t, db, createServiceCalls)
	if _, err := db.ExecContext(t.Context(), `INSERT INTO service_calls SELECT 'acme', unnest($1::text[])`, calls); err != nil {
		t.Fatal(err)
	}
	if err := postgres.ReferenceServiceCalls(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	return postgres.New(db, opt), db
}

// TestOthersAreCommittedTogether has one command among a thousand refused.
func TestOthersAreCommittedTogether(t *testing.T) {
	t.Parallel()
	var calls []timer.ServiceCallID
	var commands []timer.ScheduleTimer
	for i := range 1000 {
		c := schedule(timer.ServiceCallID(fmt.Sprint("call-", i)))
		c.CommandID = fmt.Sprint("command-", i)
		commands = append(commands, c)
		if i != 500 {
			calls = append(calls, c.ServiceCallID)
		}
	}
	s, db := referenced(t, relaxed, calls)
	if _, err := s.Schedule(t.Context(), noon, commands...); err != nil {
		t.Fatal(err)
	}
	var rows, transactions int
	if err := db.QueryRowContext(t.Context(), `SELECT count(*), count(DISTINCT xmin::text) FROM timer_schedules`).Scan(&rows, &transactions); err != nil {
		t.Fatal(err)
	}
	if rows != 999 || transactions != 1 {
		t.Errorf("%d timers of %d transactions, want 999 of one", rows, transactions)
	}
}

// TestRefusedByTheServer applies commands that no validation has seen. Those
// beside them are applied.
func TestRefusedByTheServer(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.URL(t), relaxed)
	beside := 0
	for what, bad := range map[string]timer.ScheduleTimer{
		"command_id_has_1_to_128_characters": {Key: schedule("call-1").Key, Version: timer.Version{CommandID: strings.Repeat("x", 129)}, DueAt: noon},
		"unsupported Unicode escape sequence": {
			Key: schedule("call-1").Key, Version: timer.Version{TimestampMS: 1, CommandID: "bad"}, DueAt: noon, Trace: timer.Trace{Parent: "a\x00b"},
		},
	} {
		commands := []timer.ScheduleTimer{bad}
		for range 2 {
			results, err := s.Schedule(t.Context(), noon, commands...)
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range results {
				if i%3 != 0 {
					if r.Err != nil {
						t.Errorf("%s: a command beside it: %v", what, r.Err)
					}
					continue
				}
				if err := r.Err; !errors.Is(err, timer.ErrInvalid) || errors.Is(err, timer.ErrFatal) || !strings.Contains(fmt.Sprint(err), what) || !strings.Contains(err.Error(), "acme.call-1") {
					t.Errorf("%s: %v, want it invalid by name of the rule and of the key", what, err)
				}
			}
			beside += 2
			commands = []timer.ScheduleTimer{bad, schedule(timer.ServiceCallID(fmt.Sprint("beside-", beside))), schedule(timer.ServiceCallID(fmt.Sprint("beside-", beside+1))), bad}
		}
	}
	results, err := s.Cancel(t.Context(), noon, cancel("call-3"), timer.CancelTimer{Key: schedule("call-1").Key})
	if err != nil || results[0].Outcome != timer.DidCancel || !errors.Is(results[1].Err, timer.ErrInvalid) {
		t.Errorf("cancel: %+v, %v, want the second one invalid", results, err)
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
			if _, err := db.ExecContext(t.Context(), text); err != nil {
				t.Fatal(err)
			}
			commands := []timer.ScheduleTimer{schedule("call"), schedule("call")}
			commands[0].TenantID = "refused"
			results, err := s.Schedule(t.Context(), noon, commands...)
			if err != nil || len(results) != 2 || !errors.Is(results[0].Err, timer.ErrInvalid) || results[1].Err != nil {
				t.Errorf("results %+v, %v", results, err)
			}
		})
	}
}
