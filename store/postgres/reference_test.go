package postgres_test

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store/postgres"
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
			schema := u.Query().Get("search_path") // which whoever deletes need not have in his
			run(t, handle(t, pgtest.Server(t)), `DELETE FROM `+schema+`.service_calls WHERE service_call_id = 'call-1'`)
			if _, err := s.Get(t.Context(), schedule("call-1").Key); !errors.Is(err, timer.ErrNotFound) {
				t.Errorf("a timer whose service call was deleted: %v, want ErrNotFound", err)
			}
			counts, err := s.Counts(t.Context(), "acme")
			if want := (timer.Counts{Scheduled: 1}); err != nil || counts != want {
				t.Errorf("counts: %+v, %v, want %+v", counts, err, want)
			}
		})
	}
}

// TestCommandsWithoutServiceCall sends commands for service calls that are not
// there, to a database that minds.
func TestCommandsWithoutServiceCall(t *testing.T) {
	t.Parallel()
	db := migrated(t, pgtest.URL(t))
	run(t, db, createServiceCalls, `INSERT INTO service_calls VALUES ('acme', 'call-1'), ('acme', 'call-3')`)
	if err := postgres.ReferenceServiceCalls(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	s := postgres.New(db, relaxed)
	_, err := s.Schedule(t.Context(), noon, schedule("call-1"), schedule("call-2"))
	invalid, ok := errors.AsType[*timer.InvalidError](err)
	if !ok || invalid.Reason != timer.ReasonRefused || !strings.Contains(err.Error(), "acme.call-2") || !errors.Is(err, timer.ErrInvalid) {
		t.Errorf("schedule: %v, want it refused by name", err)
	}
	if _, err := s.Get(t.Context(), schedule("call-1").Key); !errors.Is(err, timer.ErrNotFound) {
		t.Errorf("a command beside an invalid one was applied: %v", err)
	}
	scheduled(t, s, "call-3")
	outcomes, err := s.Cancel(t.Context(), noon, cancel("call-2"), cancel("call-1"), cancel("call-2"), cancel("call-3"))
	want := []timer.Outcome{timer.WasCanceled, timer.DidCancel, timer.WasCanceled, timer.DidCancel}
	if diff := cmp.Diff(want, outcomes); err != nil || diff != "" {
		t.Errorf("cancel: %v (-want +got):\n%s", err, diff)
	}
	if _, err := s.Get(t.Context(), schedule("call-2").Key); !errors.Is(err, timer.ErrNotFound) {
		t.Errorf("a cancellation of nothing left %v", err)
	}
}

// TestRefusedByTheServer applies commands that no validation has seen.
func TestRefusedByTheServer(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.URL(t), relaxed)
	for what, bad := range map[string]timer.ScheduleTimer{
		"command_id_has_1_to_128_characters": {Key: schedule("call-1").Key, Version: timer.Version{CommandID: strings.Repeat("x", 129)}, DueAt: noon},
		"invalid byte sequence": {
			Key: schedule("call-1").Key, Version: schedule("call-1").Version, DueAt: noon, Trace: timer.Trace{Parent: "a\x00b"},
		},
	} {
		_, alone := s.Schedule(t.Context(), noon, bad)
		_, beside := s.Schedule(t.Context(), noon, schedule("call-0"), bad)
		for _, err := range []error{alone, beside} {
			if !errors.Is(err, timer.ErrInvalid) || errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: %v, want it invalid by name of the rule", what, err)
			}
		}
		if !strings.Contains(alone.Error(), "acme.call-1") {
			t.Errorf("%s: %v, want it by name of the key", what, alone)
		}
		if _, err := s.Get(t.Context(), schedule("call-0").Key); !errors.Is(err, timer.ErrNotFound) {
			t.Errorf("a command beside an invalid one was applied: %v", err)
		}
	}
	if _, err := s.Cancel(context.Background(), noon, timer.CancelTimer{Key: schedule("call-1").Key}); !errors.Is(err, timer.ErrInvalid) {
		t.Errorf("cancel: %v, want it invalid", err)
	}
}
