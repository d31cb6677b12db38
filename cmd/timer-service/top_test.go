package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/admin"
)

// TestTop shows one frame of a service, since the output is no terminal.
func TestTop(t *testing.T) {
	t.Parallel()
	server, database := answering(t)
	do(t, database, "schedule", "acme", "a", "--in", "0", "--wait").wants(t, exitOK)
	do(t, database, "schedule", "other", "b", "--in", "1h").wants(t, exitOK)
	environ := []string{"TIMER_SERVER=" + server}
	do(t, environ, "top").wants(t, exitOK).prints(t, "timers fire").prints(t, "acme").prints(t, "p99 ≤")
	var f frame
	if err := json.Unmarshal([]byte(do(t, environ, "top", "--once", "-o", "json").wants(t, exitOK).stdout), &f); err != nil || f.Totals.Pace == nil || f.Totals.Pace.Events != 1 {
		t.Errorf("%+v, %v, want 1 event", f.Totals.Pace, err)
	}
	do(t, nil, "top", "--server", "http://127.0.0.1:1").wants(t, exitFailure).says(t, "does not answer over HTTP")
	do(t, environ, "top", "--interval", "0s").wants(t, exitUsage)
	do(t, []string{"TIMER_DB_PATH=/nowhere/timers.db"}, "top").wants(t, exitFailure).says(t, "--server")
}

// TestFrameOfAServiceThatIsLate says how late it is, and fits a screen of 40 lines.
func TestFrameOfAServiceThatIsLate(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)
	stats := admin.Stats{Firing: &admin.Firing{Paused: true, Pause: admin.Pause{Since: "2030-05-17T11:00:00.000Z", By: "bob\x1b[2J"}}, Outbox: 5, Parked: 2, Overdue: 1, Pace: &admin.Pace{LateMS: 40_000}}
	var tenants []admin.Tenant
	for range 60 {
		tenants = append(tenants, admin.Tenant{TenantID: "t", Counts: admin.Counts{Scheduled: 1}})
	}
	is := admin.Readiness{Parts: []admin.ReadinessPart{{Part: "store", OK: true}, {Part: "broker"}}}
	text := newFrame(now, stats, tenants, is).text()
	if n := strings.Count(text, "\n"); n > screen {
		t.Errorf("%d lines, want at most %d", n, screen)
	}
	for _, want := range []string{"now 40.0 s", "FIRING IS PAUSED", "NOT READY: broker (", "by bob?[2J", "and 50 more"} {
		if !strings.Contains(text, want) {
			t.Errorf("the frame lacks %q:\n%s", want, text)
		}
	}
}
