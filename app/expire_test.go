package app_test

import (
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// TestATimerExpiresAsTheQuotasOfItsTenantSay has commands come by each door while firing is paused.
// The quotas change before the last one comes, which changes nothing for waiting commands.
func TestATimerExpiresAsTheQuotasOfItsTenantSay(t *testing.T) {
	onBrokers(t, func(b *bench) {
		quotas := limiter(b, "acme", quota.Limits{ExpireAfter: time.Hour})
		a, _ := b.serve(app.Options{Quotas: quotas})
		due := time.Now().Add(time.Minute)
		schedule := func(call timer.ServiceCallID, tenant timer.TenantID, expires time.Time) {
			b.send(timer.ScheduleTimer{Key: timer.Key{TenantID: tenant, ServiceCallID: call}, Version: b.version(), DueAt: due, ExpiresAt: expires})
		}
		must(b, a.Pause(b.Context(), timer.Pause{By: "test"}))
		schedule("sent", "acme", time.Time{})
		schedule("named", "acme", due.Add(3*time.Hour))
		schedule("other", "globex", time.Time{})
		must(b, a.Timers().Schedule(b.Context(), in("called", time.Minute)))
		b.wait(time.Second)
		must(b, quotas.Use(quota.Config{Default: quota.Limits{ExpireAfter: 24 * time.Hour}}))
		schedule("later", "acme", time.Time{})
		b.wait(2 * time.Hour)
		must(b, a.Resume(b.Context(), ""))
		b.wait(time.Minute)
		for _, want := range []struct {
			call    timer.ServiceCallID
			tenant  timer.TenantID
			state   timer.State
			expires time.Duration // after the due time; 0: never
		}{
			{"sent", "acme", timer.Expired, time.Hour},
			{"called", "acme", timer.Expired, time.Hour},
			{"named", "acme", timer.Reached, 3 * time.Hour},
			{"later", "acme", timer.Reached, 24 * time.Hour},
			{"other", "globex", timer.Reached, 0},
		} {
			e, err := a.Timers().Get(b.Context(), timer.Key{TenantID: want.tenant, ServiceCallID: want.call})
			must(b, err)
			var expires time.Duration
			if !e.ExpiresAt.IsZero() {
				expires = e.ExpiresAt.Sub(e.DueAt)
			}
			if e.State != want.state || expires != want.expires {
				b.Errorf("%s is %s and expires after %v, want %s and %v", want.call, e.State, expires, want.state, want.expires)
			}
		}
	})
}
