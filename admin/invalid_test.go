package admin_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// TestACommandThatWouldBeADeadLetterIsRefused at once and not published, by each way that takes
// commands, with the words of the dead letter.
func TestACommandThatWouldBeADeadLetterIsRefused(t *testing.T) {
	t.Parallel()
	store, b := seeded(t), channel(t)
	limits, err := quota.New(quota.Config{Tenants: map[timer.TenantID]quota.Limits{"near": {Horizon: time.Hour}}}, timer.ClockFunc(time.Now), quota.Options{})
	must(t, err)
	a, err := app.New(store, b, quiet, app.Options{Quotas: limits})
	must(t, err)
	during(t, a.Run)
	<-a.Running()
	later := admin.New(quiet, admin.Options{Monitor: watched(t), Timers: store, Broker: b}) // it only publishes
	atOnce := admin.New(quiet, admin.Options{Monitor: watched(t), Timers: store, Broker: b, Service: a})
	messages, err := b.Tail().Subscribe(t.Context(), b.Routing().CommandsOf("acme"))
	must(t, err)
	numbers := regexp.MustCompile(`service, which is [^;]*`) // the clock
	for i, test := range []struct{ tenant, body, reason, has string }{
		{"acme", `{"in":"1h","timestampMs":1795348800000000}`, "bad_time", "it looks like microseconds"},
		{"acme", fmt.Sprintf(`{"in":"1h","timestampMs":%d}`, time.Now().Add(30*24*time.Hour).UnixMilli()), "bad_time", "ahead of the clock"},
		{"acme", `{"in":"1h","timestampMs":5}`, "bad_time", "before the year 2000"},
		{"acme", `{"in":"9000d"}`, "beyond_horizon", "beyond the horizon of 87600h"},
		{"acme", `{"dueAt":"2199-01-01T00:00:00Z"}`, "beyond_horizon", "beyond the horizon of 87600h"},
		{"near", `{"in":"2h"}`, "beyond_horizon", "beyond the horizon of 1h"},
	} {
		path := fmt.Sprintf("/v1/tenants/%s/timers/new-%d", test.tenant, i)
		code, letter, _ := send(t, later, "PUT", path+"?wait=20s", test.body)
		detail, refused := strings.CutPrefix(fmt.Sprint(letter["detail"]), "refused: ")
		if code != 422 || !refused || letter["reason"] != test.reason || letter["id"] == nil {
			t.Errorf("%s: its dead letter: %d %v", test.body, code, letter)
		}
		m := <-messages
		m.Ack()
		detail = numbers.ReplaceAllString(detail, "")
		for _, query := range []string{"", "?wait=20s"} {
			code, got, header := send(t, atOnce, "PUT", path+query, test.body)
			text := numbers.ReplaceAllString(fmt.Sprint(got["detail"]), "")
			if code != 422 || got["reason"] != test.reason || got["id"] != nil || header.Get("Content-Type") != "application/problem+json" || !strings.Contains(text, test.has) {
				t.Errorf("%s%s: %d %v, want %s with %q", test.body, query, code, got, test.reason, test.has)
			}
			if in := strings.Contains(test.body, `"in"`) && test.reason == "beyond_horizon"; !in && text != detail {
				t.Errorf("%s: %q, but its dead letter %q", test.body, text, detail)
			}
		}
	}
	// Of several lines only the invalid ones are refused.
	wrong := strings.Replace(lineOf("acme", "one"), `"timestampMs":1795348800000`, `"timestampMs":1795348800000000`, 1)
	code, got := publishLines(t, atOnce, wrong+"\n"+lineOf("acme", "two"))
	if diff := cmp.Diff([]string{"1 c-one refused bad_time timestampMs 17953488", "2 c-two published"}, got); code != 200 || diff != "" {
		t.Errorf("%d (-want +got):\n%s", code, diff)
	}
	m := <-messages
	m.Ack()
	if !strings.Contains(string(m.Payload), `"two"`) {
		t.Errorf("published: %s", m.Payload)
	}
}
