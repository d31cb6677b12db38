package handlers_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/logbuf"
	"github.com/event-service-agent/timer-service/timer"
)

func TestTimestampFarFromTheClockIsADeadLetter(t *testing.T) {
	t.Parallel()
	first := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	for _, test := range []struct {
		name string
		ms   int64
		want string // part of the detail; empty: accepted
	}{
		{"now", noon.UnixMilli(), ""},
		{"the first of all", first, ""},
		{"a day ahead", noon.Add(24 * time.Hour).UnixMilli(), ""},
		{"more than a day ahead", noon.Add(24*time.Hour).UnixMilli() + 1, "24h0m0s ahead of the clock of the service"},
		{"in seconds", noon.Unix(), "it looks like seconds"},
		{"in microseconds", noon.UnixMicro(), "it looks like microseconds"},
		{"in nanoseconds", noon.UnixNano(), "it looks like nanoseconds"},
		{"zero", 0, "before the year 2000"},
	} {
		d := newHarness()
		d.run(t, routing)
		schedule := command
		schedule.TimestampMS = test.ms
		cancel := timer.CancelTimer{Key: command.Key, Version: schedule.Version}
		many := timer.ScheduleTimers{TenantID: command.TenantID, Version: schedule.Version, Commands: []timer.ScheduleTimer{schedule}}
		bodies := [][]byte{envelope.Schedule(schedule), envelope.Cancel(cancel), envelope.ScheduleMany(many)}
		for _, body := range bodies {
			if !d.deliver(string(body)) {
				t.Errorf("%s: %s was not acked", test.name, body)
			}
		}
		want := 0
		if test.want != "" {
			want = len(bodies)
		}
		if len(d.dead) != want || len(d.applied) != len(bodies)-want {
			t.Errorf("%s: %d dead letters, %d applied", test.name, len(d.dead), len(d.applied))
		}
		for _, dead := range d.dead {
			reason, detail := dead.Metadata.Get(envelope.HeaderDeadLetterReason), dead.Metadata.Get(envelope.HeaderDeadLetterDetail)
			if reason != "bad_time" || !strings.Contains(detail, test.want) {
				t.Errorf("%s: %s, %q, want %q", test.name, reason, detail, test.want)
			}
		}
	}
}

func TestClockThatIsAheadIsLoggedOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log logbuf.Buffer
		d := newHarness()
		d.log = slog.NewTextHandler(&log, nil)
		d.run(t, routing)
		send := func(tenant timer.TenantID, ahead time.Duration) {
			c := command
			c.TenantID, c.TimestampMS = tenant, noon.Add(ahead).UnixMilli()
			d.deliver(string(envelope.Schedule(c)))
		}
		send("acme", time.Minute)
		if text := log.Take(); text != "" {
			t.Errorf("a minute is logged: %s", text)
		}
		for range 50 {
			send("acme", time.Hour)
		}
		send("beta", 2*time.Hour)
		text := log.Take()
		if strings.Count(text, "level=WARN") != 2 || !strings.Contains(text, "tenant_id=acme count=1 ahead=1h0m0s first_message_id=c-1") || !strings.Contains(text, "tenant_id=beta") {
			t.Errorf("at once: %s", text)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if text := log.Take(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "tenant_id=acme count=50") {
			t.Errorf("after a minute: %s", text)
		}
		if len(d.applied) != 52 || len(d.dead) != 0 {
			t.Errorf("%d applied, %d dead letters", len(d.applied), len(d.dead))
		}
	})
}

// TestCommandIsNotRefusedByAClockThatIsBehind sends commands that are too far in the future of
// a clock, which is wrong at first.
func TestCommandIsNotRefusedByAClockThatIsBehind(t *testing.T) {
	t.Parallel()
	early, late := command, command
	early.TimestampMS = noon.Add(25 * time.Hour).UnixMilli()
	late.DueAt = noon.AddDate(11, 0, 0)
	d, behind := newHarness(), true
	d.clockBehind = func(context.Context) bool { return behind }
	d.run(t, routing)
	for _, c := range []timer.ScheduleTimer{early, late} {
		body := string(envelope.Schedule(c))
		behind = true
		if d.deliver(body) || len(d.dead) > 0 {
			t.Errorf("%s was acked, %d dead letters", body, len(d.dead))
		}
		behind = false
		if !d.deliver(body) || len(d.dead) != 1 {
			t.Errorf("%s is not a dead letter", body)
		}
		d.dead = nil
	}
}
