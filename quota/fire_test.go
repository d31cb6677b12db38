package quota_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// round fires as many of what tenants have due as they may, and returns how many
// that were and when to go on.
func round(k *quota.Limiter, due map[timer.TenantID]int) (map[timer.TenantID]int, time.Duration) {
	now := timer.RoundDown(time.Now())
	allow := k.Allowance(now)
	fired := make(map[timer.TenantID]int)
	var events []timer.DueTimeReached
	for tenant, n := range due {
		if n == 0 {
			continue
		}
		if allow != nil {
			n = min(n, allow(tenant), allow(tenant))
		}
		for range n {
			events = append(events, timer.DueTimeReached{Key: timer.Key{TenantID: tenant}})
		}
		fired[tenant] = n
		due[tenant] -= n
	}
	again := k.Fired(now, events)
	if again.IsZero() {
		return fired, -1
	}
	return fired, again.Sub(now)
}

func TestFireRateIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := limiter(t, quota.Config{
			Default: quota.Limits{Fire: quota.Rate{PerSecond: 1000}},
			Tenants: map[timer.TenantID]quota.Limits{"slow": {Fire: quota.Rate{PerSecond: 0.2}}, "free": {}},
		}, quota.Options{})
		due := map[timer.TenantID]int{"other": 3000, "slow": 3, "free": 5000}
		for i, step := range []struct {
			other, slow, free int
			again             time.Duration
		}{
			{1000, 1, 5000, 0}, // free may have more due
			{0, 0, 0, 100 * time.Millisecond},
			{100, 0, 0, 100 * time.Millisecond},
			{100, 0, 0, 100 * time.Millisecond},
		} {
			got, again := round(k, due)
			if got["other"] != step.other || got["slow"] != step.slow || got["free"] != step.free || again != step.again {
				t.Errorf("round %d fired %v, then %v later; want %+v", i, got, again, step)
			}
			time.Sleep(again)
		}
		began, last := time.Now(), time.Duration(0)
		for due["other"]+due["slow"] > 0 {
			fired, again := round(k, due)
			if len(fired) > 0 {
				last = time.Since(began)
			}
			time.Sleep(again)
		}
		if last < 9*time.Second || last > 10*time.Second {
			t.Errorf("the last timer fired after %v, want nearly 10s", last)
		}
	})
}

func TestATenantAtItsFireRateFiresInPortions(t *testing.T) {
	inBubble(t, of(quota.Limits{Fire: quota.Rate{PerSecond: 1000}}), quota.Options{}, func(t *testing.T, k *quota.Limiter, _ *fakeStore) {
		due := map[timer.TenantID]int{"acme": 1300}
		round(k, due)
		for i, want := range []int{0, 0, 0, 100, 0, 0, 0, 100} { // polls for the sake of others
			time.Sleep(25 * time.Millisecond)
			if fired, _ := round(k, due); fired["acme"] != want {
				t.Errorf("poll %d fired %v, want %d", i, fired, want)
			}
		}
	})
}

func TestATenantBelowItsFireRateDoesNotWait(t *testing.T) {
	inBubble(t, of(quota.Limits{Fire: quota.Rate{PerSecond: 100}}), quota.Options{}, func(t *testing.T, k *quota.Limiter, _ *fakeStore) {
		for range 1000 {
			if fired, again := round(k, map[timer.TenantID]int{"acme": 9}); fired["acme"] != 9 || again != 0 {
				t.Fatalf("fired %v, then %v later", fired, again)
			}
			if fired, again := round(k, map[timer.TenantID]int{}); len(fired) > 0 || again >= 0 {
				t.Fatalf("fired %v, then %v later", fired, again)
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
}

func TestNothingIsTakenBeforeTheCommit(t *testing.T) {
	inBubble(t, of(quota.Limits{Fire: quota.Rate{PerSecond: 100}}), quota.Options{}, func(t *testing.T, k *quota.Limiter, _ *fakeStore) {
		for range 10 { // transactions that fail
			if got := k.Allowance(time.Now())("acme"); got != 100 {
				t.Errorf("%d allowed, want 100", got)
			}
		}
	})
}

func TestFireRatesChangeAtWork(t *testing.T) {
	inBubble(t, quota.Config{}, quota.Options{}, func(t *testing.T, k *quota.Limiter, _ *fakeStore) {
		if k.Allowance(time.Now()) != nil {
			t.Error("an allowance without limits")
		}
		if again := k.Fired(time.Now(), []timer.DueTimeReached{{}}); !again.IsZero() {
			t.Errorf("without limits there is nothing to wait for, not %v", again)
		}
		must(t, k.Use(of(quota.Limits{Fire: quota.Rate{PerSecond: 10}})))
		allow := k.Allowance(time.Now())
		if got := allow("acme"); got != 10 {
			t.Errorf("%d allowed, want 10", got)
		}
		must(t, k.Use(quota.Config{Tenants: map[timer.TenantID]quota.Limits{"beta": {Fire: quota.Rate{PerSecond: 1}}}}))
		if got := allow("acme"); got != 10 {
			t.Errorf("%d allowed in the same transaction, want 10", got)
		}
		k.Fired(time.Now(), nil)
		if got := k.Allowance(time.Now())("acme"); got != math.MaxInt {
			t.Errorf("%d allowed, want all", got)
		}
	})
}
