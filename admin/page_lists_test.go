package admin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// TestPagesKeepTheirForm of dead letters, and of parked events, which bulk actions read, too.
func TestPagesKeepTheirForm(t *testing.T) {
	t.Parallel()
	s, _ := operated(t, func(opt *admin.Options) { opt.Monitor = watched(t) })
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
	must(t, err)
	s, _ := operated(t, func(opt *admin.Options) { opt.Quotas = limits })
	c := timer.ScheduleTimer{Key: timer.Key{TenantID: "globex", ServiceCallID: "order-1"}, DueAt: time.Now()}
	for i := range 2 {
		if exceeded, err := limits.Allow(t.Context(), nil, quota.Fresh, c); err != nil || (exceeded == nil) != (i == 0) {
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
