package admin_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/timer"
)

// TestReschedulesManyTimers counts and moves, by each selection, to a time and by a duration.
func TestReschedulesManyTimers(t *testing.T) {
	t.Parallel()
	s, store := working(t, app.Options{})
	hour := timer.RoundUp(time.Now().Add(time.Hour))
	var commands []timer.ScheduleTimer
	for _, call := range []string{"many-1.a", "many-1.b", "many-1.c", "many-2"} {
		c := command("acme", call, hour, 1)
		c.TimestampMS, c.CorrelationID, c.Data = time.Now().UnixMilli(), "req-"+call, `{"n": 1}`
		commands = append(commands, c)
	}
	commands[1].TimestampMS = time.Now().Add(20 * time.Second).UnixMilli() // of a clock that is ahead
	commands[2].ExpiresAt = hour.Add(2 * time.Hour)
	if _, err := store.Schedule(t.Context(), time.Now(), commands...); err != nil {
		t.Fatal(err)
	}
	due := func() (text string) {
		page, err := store.List(t.Context(), timer.Filter{TenantID: "acme", Prefix: "many-"})
		must(t, err)
		for _, e := range page.Entries {
			if e.State != timer.Scheduled || e.Data != `{"n": 1}` || e.CorrelationID != "req-"+string(e.ServiceCallID) {
				t.Errorf("%+v", e)
			}
			text += fmt.Sprint(e.DueAt.Sub(hour).Round(time.Minute), " ")
		}
		return strings.TrimSpace(text)
	}
	const path = "/v1/tenants/acme/timers:reschedule?"
	at := func(d time.Duration) string { return hour.Add(d).UTC().Format("2006-01-02T15:04:05.000Z") }
	for _, test := range []struct {
		query, result         string
		code, timers, refused int
		due                   string
	}{
		{"prefix=many-1.&to=" + at(2*time.Hour) + "&dryRun=true", "counted", 200, 3, 1, "0s 0s 0s 0s"},
		{"prefix=many-1.&to=" + at(2*time.Hour), "published", 202, 3, 1, "2h0m0s 2h0m0s 0s 0s"},
		{"prefix=many-1.&by=1h&dryRun=true", "counted", 200, 3, 0, "2h0m0s 2h0m0s 0s 0s"},
		{"prefix=many-1.&by=1h", "published", 202, 3, 0, "3h0m0s 3h0m0s 1h0m0s 0s"},
		{"prefix=many-1.&by=1h", "published", 202, 3, 1, "4h0m0s 4h0m0s 1h0m0s 0s"},
		{"correlationId=req-many-2&by=-30m", "published", 202, 1, 0, "4h0m0s 4h0m0s 1h0m0s -30m0s"},
		{"call=many-2&call=unknown&in=3h", "published", 202, 1, 0, "4h0m0s 4h0m0s 1h0m0s 2h0m0s"},
		{"prefix=many-3.&by=1h", "published", 202, 0, 0, "4h0m0s 4h0m0s 1h0m0s 2h0m0s"},
	} {
		code, body, _ := ask(t, s, http.MethodPost, path+test.query)
		refused, _ := body["refused"].(float64)
		if code != test.code || body["result"] != test.result || body["timers"] != float64(test.timers) || refused != float64(test.refused) || body["next"] != nil {
			t.Errorf("%s: %d %v", test.query, code, body)
		}
		for until := time.Now().Add(10 * time.Second); due() != test.due; runtime.Gosched() {
			if time.Now().After(until) {
				t.Fatalf("%s: due %s, want %s", test.query, due(), test.due)
			}
		}
	}
	for query, detail := range map[string]string{
		"prefix=a":                         "exactly one of to, in and by",
		"prefix=a&in=1h&by=1h":             "exactly one of to, in and by",
		"prefix=a&in=1h&to=x":              "not both",
		"prefix=a&by=7":                    "by must be a duration",
		"prefix=a&by=0s":                   "by must be a duration",
		"in=1h":                            "exactly one of",
		"by=1h":                            "exactly one of",
		"call=a&call=a&in=1h":              "call[1]",
		"prefix=a&to=2030-01-01":           "to",
		"prefix=a%20b&in=1h":               "prefix",
		"prefix=a&to=1999-01-01T00:00:00Z": "1999",
	} {
		if code, body, _ := ask(t, s, http.MethodPost, path+query); code != 422 || !strings.Contains(strings.ToLower(body["detail"].(string)+errorsIn(body)), detail) {
			t.Errorf("%s: %d %v, want %s", query, code, body, detail)
		}
	}
}
