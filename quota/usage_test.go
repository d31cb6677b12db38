package quota_test

import (
	"slices"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// TestUsageListsLimitsOfItsTenants: of tenants with limits of their own, and of active ones.
func TestUsageListsLimitsOfItsTenants(t *testing.T) {
	t.Parallel()
	l, err := quota.New(quota.Config{
		Default: quota.Limits{Accept: quota.Rate{PerSecond: 10}}, Tenants: map[timer.TenantID]quota.Limits{"globex": {Fire: quota.Rate{PerSecond: 4}}, "zeta": {}},
	}, clock, quota.Options{})
	must(t, err)
	take(l, "acme")
	if acme, globex := l.Usage("acme"), l.Usage("globex"); acme.Own || acme.Limits != l.Default() || !globex.Own || globex.Limits.Fire.PerSecond != 4 {
		t.Errorf("%+v %+v", acme, globex)
	}
	for after, want := range map[timer.TenantID][]timer.TenantID{"": {"acme", "globex"}, "acme": {"globex", "zeta"}, "b": {"globex", "zeta"}, "zeta": {}} {
		if got := l.Tenants(after, 2); !slices.Equal(got, want) {
			t.Errorf("after %q: %v, want %v", after, got, want)
		}
	}
}

// TestThrottledAreThoseOverAQuota within the last minute: by their fire rate, or by another
// limit.
func TestThrottledAreThoseOverAQuota(t *testing.T) {
	t.Parallel()
	var none *quota.Limiter
	if got := none.Throttled(); len(got) != 0 {
		t.Errorf("without quotas: %v", got)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l, err := quota.New(quota.Config{Default: quota.Limits{Accept: quota.Rate{PerSecond: 1}, Fire: quota.Rate{PerSecond: 1}}}, timer.ClockFunc(func() time.Time { return now }), quota.Options{})
	must(t, err)
	for _, tenant := range []timer.TenantID{"beta", "acme", "acme"} {
		if _, err := l.Allow(t.Context(), nil, quota.Fresh, timer.ScheduleTimer{Key: timer.Key{TenantID: tenant, ServiceCallID: "order-1"}, DueAt: now}); err != nil {
			t.Fatal(err)
		}
		done(l, tenant)
	}
	for range 2 {
		l.Allowance(now)("globex")
		l.Fired(now, []timer.DueTimeReached{{Key: timer.Key{TenantID: "globex"}}})
	}
	for _, test := range []struct {
		after time.Duration
		want  []timer.TenantID
	}{{0, []timer.TenantID{"acme", "globex"}}, {59 * time.Second, []timer.TenantID{"acme", "globex"}}, {2 * time.Second, nil}} {
		now = now.Add(test.after)
		if got := l.Throttled(); !slices.Equal(got, test.want) {
			t.Errorf("at %v: %v, want %v", now, got, test.want)
		}
	}
}
