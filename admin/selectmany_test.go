package admin_test

import (
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
