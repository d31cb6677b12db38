package admin_test

import (
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/timer"
)

// TestCancelsManyTimers counts and cancels, by each selection. One of the timers has a
// command of a clock that is ahead.
func TestCancelsManyTimers(t *testing.T) {
	t.Parallel()
	s, store := working(t, app.Options{})
	hour := time.Now().Add(time.Hour)
	var commands []timer.ScheduleTimer
	for _, call := range []string{"many-1.a", "many-1.b", "many-10", "many-2.a", "many-2.b", "many-2.c"} {
		commands = append(commands, command("acme", call, hour, 1))
	}
	commands[1].TimestampMS = time.Now().Add(20 * time.Second).UnixMilli()
	commands[2].CorrelationID = "req-many"
	if _, err := store.Schedule(t.Context(), time.Now(), commands...); err != nil {
		t.Fatal(err)
	}
	left := func() (calls []timer.ServiceCallID) {
		page, err := store.List(t.Context(), timer.Filter{TenantID: "acme", Prefix: "many-", State: timer.Scheduled})
		must(t, err)
		for _, e := range page.Entries {
			calls = append(calls, e.ServiceCallID)
		}
		return calls
	}
	const path = "/v1/tenants/acme/timers?"
	for _, test := range []struct {
		query, result string
		code, timers  int
		left          []timer.ServiceCallID
	}{
		{"prefix=many-1.&dryRun=true", "counted", 200, 2, []timer.ServiceCallID{"many-1.a", "many-1.b", "many-10", "many-2.a", "many-2.b", "many-2.c"}},
		{"prefix=many-1.", "published", 202, 2, []timer.ServiceCallID{"many-10", "many-2.a", "many-2.b", "many-2.c"}},
		{"correlationId=req-many", "published", 202, 1, []timer.ServiceCallID{"many-2.a", "many-2.b", "many-2.c"}},
		{"call=many-2.a&call=many-2.b&call=unknown", "published", 202, 2, []timer.ServiceCallID{"many-2.c"}},
		{"prefix=many-3.", "published", 202, 0, []timer.ServiceCallID{"many-2.c"}},
	} {
		code, body, _ := ask(t, s, "DELETE", path+test.query)
		first, _ := body["first"].([]any)
		if code != test.code || body["result"] != test.result || body["timers"] != float64(test.timers) || len(first) != test.timers || (body["id"] == nil) != (test.result == "counted") {
			t.Errorf("%s: %d %v", test.query, code, body)
		}
		for !slices.Equal(left(), test.left) && t.Context().Err() == nil {
			runtime.Gosched()
		}
	}
	if code, body, _ := ask(t, s, "GET", path+"prefix=many-2.&state=Scheduled"); code != 200 || len(body["timers"].([]any)) != 1 {
		t.Errorf("listed by prefix: %d %v", code, body)
	}
	for query, detail := range map[string]string{
		"":                                   "exactly one of",
		"prefix=a&correlationId=b":           "exactly one of",
		"prefix=a%20b":                       "prefix",
		"call=a&call=a":                      "call[1]",
		"call=a%20b":                         "no service call id",
		"prefix=" + strings.Repeat("a", 129): "prefix",
	} {
		if code, body, _ := ask(t, s, "DELETE", path+query); code != 422 || !strings.Contains(strings.ToLower(body["detail"].(string)+errorsIn(body)), detail) {
			t.Errorf("%s: %d %v, want %s", query, code, body, detail)
		}
	}
}

// errorsIn returns the errors of a problem.
func errorsIn(problem map[string]any) (text string) {
	all, _ := problem["errors"].([]any)
	for _, e := range all {
		text += " " + e.(map[string]any)["location"].(string)
	}
	return text
}

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

// TestAuditNamesTheTimer that one person has moved, and not only how many there were.
func TestAuditNamesTheTimer(t *testing.T) {
	t.Parallel()
	s, _ := operated(t, nil)
	if code, text := submit(s, "/do/fire", url.Values{"tenant": {"acme"}, "call": {"order-3"}}, with("full")...); code != 200 {
		t.Fatal(code, text)
	}
	if _, text := get(s, "/v1/audit", with("full")...); !strings.Contains(text, `"target":"acme order-3 to `) {
		t.Error(text)
	}
}
