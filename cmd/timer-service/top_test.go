package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// TestTop shows frames of a service: one if the output is no terminal, and else or with
// --watch until it is interrupted.
func TestTop(t *testing.T) {
	t.Parallel()
	server, database := answering(t)
	do(t, database, "schedule", "acme", "a", "--in", "0", "--wait").wants(t, exitOK)
	do(t, database, "schedule", "other", "b", "--in", "1h").wants(t, exitOK)
	environ := []string{"TIMER_SERVER=" + server}
	do(t, environ, "top").wants(t, exitOK).prints(t, "timers fire").prints(t, "acme").prints(t, "p99 ≤")
	var f frame
	if err := json.Unmarshal([]byte(do(t, environ, "top", "--once", "-o", "json").wants(t, exitOK).stdout), &struct {
		Events *uint64 `json:"events"`
	}{&f.Events}); err != nil || f.Events != 1 {
		t.Errorf("%d events, %v, want 1", f.Events, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	out := &frames{want: 2, stop: stop}
	if code := run(ctx, []string{"top", "--watch", "--interval", "100ms", "--server", server}, nil, out, &strings.Builder{}); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	if text := out.text.String(); !strings.Contains(text, "commands/s in") {
		t.Errorf("the second frame has no throughput:\n%s", text)
	}
	do(t, nil, "top", "--server", "http://127.0.0.1:1").wants(t, exitFailure).says(t, "does not answer over HTTP")
	do(t, environ, "top", "--interval", "0s").wants(t, exitUsage)
	do(t, []string{"TIMER_HTTP_ADDR=", database[0]}, "top").wants(t, exitFailure).says(t, "--server")
}

// Frames stops a run after some.
type frames struct {
	text strings.Builder
	want int
	stop func()
}

// Write counts frames.
func (f *frames) Write(p []byte) (int, error) {
	f.text.Write(p)
	if strings.Count(f.text.String(), "timers fire") >= f.want {
		f.stop()
	}
	return len(p), nil
}

// TestFrameOfAServiceThatIsLate says how late it is, and fits a screen.
func TestFrameOfAServiceThatIsLate(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)
	s := &sample{
		at: now, stats: timer.Stats{Outbox: 5, DueAt: now.Add(-40 * time.Second), Parked: 2}, pause: timer.Pause{Since: now.Add(-time.Hour), By: "bob\x1b[2J"},
		overdue: timer.Overdue{Timers: 1, Oldest: now.Add(-10 * time.Second)},
	}
	for range 60 {
		s.tenants = append(s.tenants, timer.TenantCounts{TenantID: "t", Counts: timer.Counts{Scheduled: 1}})
	}
	text := newFrame(nil, s).text()
	for _, want := range []string{"now 40.0 s", "FIRING IS PAUSED", "by bob?[2J", "and 10 more"} {
		if !strings.Contains(text, want) {
			t.Errorf("the frame lacks %q:\n%s", want, text)
		}
	}
	lines := strings.Split(fit(text, 20, 5), "\r\n")
	if len(lines) != 5 {
		t.Errorf("%d lines, want 5", len(lines))
	}
	for _, line := range lines {
		if n := len([]rune(strings.TrimSuffix(line, "\x1b[K"))); n > 20 {
			t.Errorf("%q has %d characters, want 20 at most", line, n)
		}
	}
}
