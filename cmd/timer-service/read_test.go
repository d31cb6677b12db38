package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// noon is when the timers of these tests were scheduled.
var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// reachedEvent is the event of a-1, which was never in the outbox of [populated].
var reachedEvent = timer.DueTimeReached{Key: timer.Key{TenantID: "acme", ServiceCallID: "a-1"}, CommandID: "command-1", DueAt: noon.Add(time.Second)}

// populated returns the path of a database, closed again, with timers of acme:
// a-1 Reached 2 ms late, b-1 Scheduled, c-1 Canceled, and d-1 a tombstone; and
// one of the tenant beta that shares a correlation id with b-1.
func populated(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "timers.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	must(t, err)
	version := func(n int64) timer.Version {
		return timer.Version{TimestampMS: noon.UnixMilli() + n, CommandID: fmt.Sprintf("command-%d", n)}
	}
	schedule := func(n int64, tenant timer.TenantID, call timer.ServiceCallID, due time.Time, correlation string) {
		_, err := s.Schedule(t.Context(), noon, timer.ScheduleTimer{
			Key: timer.Key{TenantID: tenant, ServiceCallID: call}, Version: version(n), DueAt: due, CorrelationID: correlation,
		})
		must(t, err)
	}
	cancel := func(n int64, call timer.ServiceCallID) {
		_, err := s.Cancel(t.Context(), noon.Add(time.Minute), timer.CancelTimer{
			Key: timer.Key{TenantID: "acme", ServiceCallID: call}, Version: version(n),
		})
		must(t, err)
	}
	schedule(1, "acme", "a-1", noon.Add(time.Second), "")
	schedule(2, "acme", "b-1", noon.Add(time.Hour), "req-7")
	schedule(3, "acme", "c-1", noon.Add(2*time.Hour), "")
	cancel(4, "c-1")
	cancel(5, "d-1")
	schedule(6, "beta", "x-1", noon.Add(3*time.Hour), "req-7")
	must(t, s.Update(t.Context(), func(tx timer.Tx) error {
		_, err := tx.Reach(context.WithoutCancel(t.Context()), noon.Add(time.Second+2*time.Millisecond), 10, nil)
		return err
	}))
	must(t, s.Close())
	return path
}

func TestGetPrintsEveryFieldOfATimer(t *testing.T) {
	t.Parallel()
	path := populated(t)
	for call, want := range map[string]map[string]any{ // all that is printed
		"a-1": {
			"tenantId": "acme", "serviceCallId": "a-1", "state": "Reached", "dueAt": "2030-01-01T12:00:01.000Z",
			"registeredAt": "2030-01-01T12:00:00.000Z", "reachedAt": "2030-01-01T12:00:01.002Z", "latenessMs": 2.0,
			"commandId": "command-1", "timestampMs": float64(noon.UnixMilli() + 1),
			"event": map[string]any{"id": envelope.EventID(reachedEvent), "state": "published"},
		},
		"b-1": {
			"tenantId": "acme", "serviceCallId": "b-1", "state": "Scheduled", "dueAt": "2030-01-01T13:00:00.000Z",
			"registeredAt": "2030-01-01T12:00:00.000Z", "correlationId": "req-7",
			"commandId": "command-2", "timestampMs": float64(noon.UnixMilli() + 2),
		},
		"d-1": {
			"tenantId": "acme", "serviceCallId": "d-1", "state": "Canceled",
			"registeredAt": "2030-01-01T12:01:00.000Z", "canceledAt": "2030-01-01T12:01:00.000Z",
			"commandId": "command-5", "timestampMs": float64(noon.UnixMilli() + 5),
		},
	} {
		got := decode(t, do(t, nil, "get", "acme", call, "--db-path", path, "-o", "json").wants(t, exitOK).stdout)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", call, diff)
		}
	}
	text := do(t, nil, "get", "acme", "a-1", "--db-path", path).wants(t, exitOK)
	for name, value := range map[string]string{
		"tenant": "acme", "service call": "a-1", "state": "Reached", "due at": "2030-01-01T12:00:01.000Z (", "registered at": "2030-01-01T12:00:00.000Z (",
		"reached at": "2030-01-01T12:00:01.002Z (", "event": "published", "command": "command-1 of 2030-01-01T12:00:00.001Z (",
	} {
		text.prints(t, fmt.Sprintf("%-14s %s", name, value))
	}
	text.prints(t, "fired late     2ms\n")
	do(t, nil, "get", "beta", "a-1", "--db-path", path).wants(t, exitNotFound).says(t, "beta.a-1: not found")
}

// TestDataAreShownBySize unless they are asked for.
func TestDataAreShownBySize(t *testing.T) {
	t.Parallel()
	environ := serving(t, "TIMER_HTTP_ADDR=")
	const data = `{"order": 7.0, "marker":"é"}`
	do(t, environ, "schedule", "acme", "order-1", "--in", "1h", "--data", data).wants(t, exitOK)
	await(t, environ, "order-1", "Scheduled")
	for _, args := range [][]string{{"get", "acme", "order-1"}, {"get", "acme", "order-1", "-o", "json"}, {"list", "acme"}, {"list", "acme", "-o", "json"}} {
		got := do(t, environ, args...).wants(t, exitOK).stdout
		if strings.Contains(got, "marker") {
			t.Errorf("%q prints the data: %s", args, got)
		}
		if size := strings.Contains(got, `"dataBytes":29`) || strings.Contains(got, "29 bytes"); !size && !slices.Equal(args, []string{"list", "acme"}) {
			t.Errorf("%q does not print the size: %s", args, got)
		}
	}
	if got := do(t, environ, "get", "acme", "order-1", "--data").wants(t, exitOK).stdout; !strings.HasSuffix(got, "\n"+data+"\n") {
		t.Errorf("get --data prints %s", got)
	}
	got := decode(t, do(t, environ, "get", "acme", "order-1", "--data", "-o", "json").wants(t, exitOK).stdout)
	if diff := cmp.Diff(map[string]any{"order": 7.0, "marker": "é"}, got["data"]); diff != "" {
		t.Errorf("get --data -o json (-want +got):\n%s", diff)
	}
	if got := decode(t, do(t, environ, "list", "acme", "-o", "json").wants(t, exitOK).stdout); got["data"] != nil {
		t.Errorf("list prints data: %v", got)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	path := populated(t)
	tests := []struct {
		name string
		args []string
		want []string // keys, in order
		note string   // on stderr, in text
	}{
		{"all of a tenant", []string{"acme"}, []string{"acme.a-1", "acme.b-1", "acme.c-1", "acme.d-1"}, ""},
		{"of one state", []string{"acme", "--state", "Canceled"}, []string{"acme.c-1", "acme.d-1"}, ""},
		{"all, page by page", []string{"acme", "--limit", "0"}, []string{"acme.a-1", "acme.b-1", "acme.c-1", "acme.d-1"}, ""},
		{"more than a page of the API", []string{"acme", "--limit", "5000"}, []string{"acme.a-1", "acme.b-1", "acme.c-1", "acme.d-1"}, ""},
		{"a page", []string{"acme", "--limit", "2"}, []string{"acme.a-1", "acme.b-1"}, "--after b-1"},
		{"the page after it", []string{"acme", "--limit", "9", "--after", "b-1"}, []string{"acme.c-1", "acme.d-1"}, ""},
		{"due from a time", []string{"acme", "--due-from", "2030-01-01T12:00:02Z", "--state", "Scheduled"}, []string{"acme.b-1"}, ""},
		{"due before a time", []string{"acme", "--due-before", "2030-01-01T12:00:02+00:00"}, []string{"acme.a-1"}, ""},
		{"of a correlation and a tenant", []string{"acme", "--correlation", "req-7"}, []string{"acme.b-1"}, ""},
		{"of a correlation, over tenants", []string{"--correlation", "req-7"}, []string{"acme.b-1", "beta.x-1"}, ""},
		{"due soon, over tenants", []string{"--due-within", "36500d", "--limit", "1"}, []string{"acme.b-1"}, "--after 1893502800000-"},
		{"due soon, of a tenant", []string{"beta", "--due-before", "36500d"}, []string{"beta.x-1"}, ""},
		{"overdue, over tenants", []string{"--due-within", "0"}, nil, "no timers"},
		{"of a tenant without timers", []string{"unknown"}, nil, "no timers"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"list", "--db-path", path}, tt.args...)

			var got []string
			for line := range strings.Lines(do(t, nil, append(args, "-o", "json")...).wants(t, exitOK).stdout) {
				var key struct{ TenantID, ServiceCallID string }
				if err := json.Unmarshal([]byte(line), &key); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				got = append(got, key.TenantID+"."+key.ServiceCallID)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}

			text := do(t, nil, args...).wants(t, exitOK)
			for _, key := range tt.want {
				tenant, call, _ := strings.Cut(key, ".")
				if !hasRow(text.stdout, tenant, call) {
					t.Errorf("no row of %s in\n%s", key, text.stdout)
				}
			}
			if !strings.Contains(text.stderr, tt.note) || tt.note == "" && text.stderr != "" {
				t.Errorf("stderr is %q, want %q", text.stderr, tt.note)
			}
		})
	}
}

// TestStatsNamesDestinations that take no events.
func TestStatsNamesDestinations(t *testing.T) {
	t.Parallel()
	path := populated(t)
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	must(t, err)
	err = s.Update(t.Context(), func(tx timer.Tx) error {
		return tx.Emit(t.Context(), timer.DueTimeReached{Key: timer.Key{TenantID: "acme", ServiceCallID: "a"}, CommandID: "c", DueAt: noon, ReachedAt: noon})
	})
	must(t, err)
	rows, err := s.Outbox().Table.Head(t.Context(), 0, 1)
	if err != nil || len(rows) != 1 {
		t.Fatal(rows, err)
	}
	denied := outbox.Deferral{Place: rows[0].Place, Destination: "svc.acme.serviceCall", Reason: "permission denied", RetryAt: noon}
	must(t, errors.Join(s.Outbox().Table.Defer(t.Context(), denied), s.Close()))
	do(t, nil, "stats", "--db-path", path).wants(t, exitOK).prints(t, "svc.acme.serviceCall: 1 waits since 2030-01-01T12:00:00.000Z").prints(t, ": permission denied\n")
}

func TestStats(t *testing.T) {
	t.Parallel()
	path := populated(t)
	do(t, nil, "stats", "--db-path", path).wants(t, exitOK).prints(t, "scheduled      2\n").prints(t, "next due       2030-01-01T13:00:00.000Z (").prints(t, "undelivered    0\n")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{}, `{"scheduled":2,"reached":1,"expired":0,"canceled":2,"nextDue":"2030-01-01T13:00:00.000Z","overdue":0,"outbox":0,"parked":0}`},
		{[]string{"acme"}, `{"tenantId":"acme","scheduled":1,"reached":1,"expired":0,"canceled":2,"overdue":0}`},
		{[]string{"--tenants", "--after", "acme"}, `{"tenantId":"beta","scheduled":1,"reached":0,"expired":0,"canceled":0,"overdue":0}`},
		{[]string{"--tenants", "--after", "zoe"}, ``},
	} {
		got := do(t, nil, append([]string{"stats", "-o", "json", "--db-path", path}, tt.args...)...).wants(t, exitOK)
		if strings.TrimSpace(got.stdout) != tt.want {
			t.Errorf("%v: prints %s, want %s", tt.args, got.stdout, tt.want)
		}
	}
	do(t, nil, "stats", "unknown", "--db-path", path).wants(t, exitNotFound).says(t, "timers of tenant unknown: not found")
	do(t, nil, "stats", "--tenants", "--limit", "1", "--db-path", path).wants(t, exitOK).says(t, "--after acme")
}

// TestACountThatStopsAtALimitSaysSo, so that nobody takes it for the number.
func TestACountThatStopsAtALimitSaysSo(t *testing.T) {
	t.Parallel()
	for n, want := range map[string]string{"9999": "9999", "10000": "10000+"} {
		if got := forms["capped"](n); got != want {
			t.Errorf("%s overdue timers are shown as %s, want %s", n, got, want)
		}
	}
}

// TestMigrate lists its steps, makes them once, and refuses a reference to no table.
func TestMigrate(t *testing.T) {
	t.Parallel()
	environ := []string{"TIMER_DB_PATH=" + filepath.Join(t.TempDir(), "timers.db")}
	for _, tt := range []struct{ args, want string }{
		{"status", "no schema, this binary makes "},
		{"status -o json", `{"version":0,"binary":`},
		{"sql", "CREATE TABLE timer_schedules"},
		{"sql -o json", `"sql":"-- Schema 1.\n`},
		{"-o json", `{"from":0,"to":`},
		{"", ", as before"},
		{"status", "that of this binary"},
		{"sql", ""},
	} {
		got := do(t, environ, append([]string{"migrate"}, strings.Fields(tt.args)...)...).wants(t, exitOK).stdout
		if !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
			t.Errorf("migrate %s prints %q, want %q", tt.args, got, tt.want)
		}
	}
	do(t, environ, "migrate", "--reference-service-calls").wants(t, exitFailure).says(t, "service_calls")
}

// TestGetSaysWhereAnEventIs, and the error of the broker.
func TestGetSaysWhereAnEventIs(t *testing.T) {
	t.Parallel()
	const at = "2026-01-01T00:00:00.000Z"
	for want, e := range map[string]admin.Event{
		"waits for the broker since " + at + " (":                {State: timer.Waiting, Since: at},
		"not published in 2 tries, the next at " + at + " (":     {State: timer.Deferred, Attempts: 2, RetryAt: at, Destination: "svc.acme", Reason: "too large"},
		"parked at " + at + " (":                                 {State: timer.Parked, Since: at, Reason: "too large"},
		"unknown: more than 10000 events wait, and it is not am": {State: timer.DeliveryUnknown},
		"published": {State: timer.Published},
	} {
		row, err := json.Marshal(e)
		must(t, err)
		got := forms["event"](string(row))
		if !strings.HasPrefix(got, want) || !strings.Contains(got, e.Reason) || !strings.Contains(got, e.Destination) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}
