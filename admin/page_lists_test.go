package admin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// TestPagesShowWhatAFormSelects of dead letters, and of parked events.
func TestPagesShowWhatAFormSelects(t *testing.T) {
	t.Parallel()
	b := channel(t)
	s, _ := operated(t, func(opt *admin.Options) { opt.Broker, opt.Monitor = b, watched(t) })
	refuse(t, b, "acme", "a-1", "bad_field", "{}", 0)
	refuse(t, b, "acme", "a-2", "not_json", "{}", 0)
	refuse(t, b, "globex", "g-1", "not_json", "{}", 0)
	for path, want := range map[string]string{
		"/dead-letters":                                      "dead-a-1 dead-a-2 dead-g-1",
		"/dead-letters?reason=not_json":                      "dead-a-2 dead-g-1",
		"/dead-letters?reason=+not_json+&tenant=acme":        "dead-a-2",
		"/dead-letters?correlation=req-7":                    "",
		"/dead-letters?since=2026-01-01T00:00":               "dead-a-1 dead-a-2 dead-g-1",
		"/dead-letters?since=2026-01-01T00:01&tenant=globex": "",

		"/parked?since=2026-01-01T00:01&tenant=globex": "globex/gone",
		"/parked":                        "acme/order-1 globex/gone",
		"/parked?reason=LARGE":           "acme/order-1 globex/gone",
		"/parked?reason=small":           "",
		"/parked?correlation=req-7":      "acme/order-1",
		"/parked?since=2026-01-01T00:02": "",
	} {
		code, body := get(s, path, with("full")...)
		var found []string
		for _, name := range []string{"dead-a-1", "dead-a-2", "dead-g-1", "acme/order-1", "globex/gone"} {
			if strings.Contains(body, `id="`+name+`"`) || strings.Contains(body, ">"+name+"</a>") {
				found = append(found, name)
			}
		}
		if got := strings.Join(found, " "); code != 200 || got != want {
			t.Errorf("%s: %d %q, want %q", path, code, got, want)
		}
	}
	for _, path := range []string{"/dead-letters", "/parked"} {
		if code, body := get(s, path+"?since=yesterday", with("full")...); code != 422 {
			t.Errorf("%s of a time that is none: %d %s", path, code, body)
		}
		code, body := get(s, path+"?tenant=acme&reason=a%26b&since=2026-01-01T00:01&after=1", with("full")...)
		if code == 200 && !strings.Contains(body, path+"?reason=a%26b&amp;since=2026-01-01T00%3A01&amp;tenant=acme\">First page") || code != 200 && code != 404 {
			t.Errorf("%s: the first page has another form: %d %s", path, code, body)
		}
	}
}

// TestPagesSayWhoIsThrottled, to a tenant of itself only.
func TestPagesSayWhoIsThrottled(t *testing.T) {
	t.Parallel()
	limits, err := quota.New(quota.Config{Tenants: map[timer.TenantID]quota.Limits{"globex": {Accept: quota.Rate{PerSecond: 0.5}}}}, timer.ClockFunc(time.Now), quota.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := operated(t, func(opt *admin.Options) { opt.Quotas = limits })
	c := timer.ScheduleTimer{Key: timer.Key{TenantID: "globex", ServiceCallID: "order-1"}, DueAt: time.Now()}
	for i := range 2 {
		if exceeded, err := limits.Allow(t.Context(), nil, false, c); err != nil || (exceeded == nil) != (i == 0) {
			t.Fatal(exceeded, err)
		}
	}
	for token, want := range map[string]string{"full": "Throttled:</b> globex was over a quota", "globex": "Throttled:</b> your tenant was over a quota", "acme": ""} {
		_, body := get(s, "/timers", with(token)...)
		if !strings.Contains(body, want) || want == "" && strings.Contains(body, "Throttled") {
			t.Errorf("%s: no %q in %s", token, want, body)
		}
	}
}
