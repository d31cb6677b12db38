package quota_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// allow asks for one command, without a store.
func allow(t *testing.T, l *quota.Limiter, tenant timer.TenantID, again bool) *quota.Exceeded {
	t.Helper()
	exceeded, err := l.Allow(t.Context(), nil, again, timer.ScheduleTimer{Key: timer.Key{TenantID: tenant}})
	if err != nil {
		t.Fatal(err)
	}
	return exceeded
}

// TestTenantsAreForgotten has a hundred thousand of them, a thousand at a time.
func TestTenantsAreForgotten(t *testing.T) {
	inBubble(t, of(quota.Limits{Accept: quota.Rate{PerSecond: 1}, Fire: quota.Rate{PerSecond: 100}}), quota.Options{}, func(t *testing.T, l *quota.Limiter, _ *fakeStore) {
		most := 0
		for i := range 100_000 {
			tenant := timer.TenantID(fmt.Sprint(i))
			if exceeded := allow(t, l, tenant, false); exceeded != nil {
				t.Fatal("refused")
			}
			l.Done(tenant, 1, timer.Result{Outcome: timer.DidSchedule})
			l.Allowance(time.Now())(tenant)
			l.Fired(time.Now(), []timer.DueTimeReached{{Key: timer.Key{TenantID: tenant}}})
			for range 10 { // its turn is 10 s from now
				allow(t, l, tenant, false)
			}
			time.Sleep(10 * time.Second / 1000)
			if i%100 == 0 {
				most = max(most, len(l.Tenants("", 1<<20)))
			}
		}
		if most > 4096 {
			t.Errorf("%d tenants were remembered", most)
		}
	})
}

// TestATenantAtItsLimitIsNotForgotten has one tenant that is at its limit and one
// that owes, among many that are not.
func TestATenantAtItsLimitIsNotForgotten(t *testing.T) {
	inBubble(t, of(quota.Limits{Accept: quota.Rate{PerSecond: 0.001, Burst: 2}}), quota.Options{}, func(t *testing.T, l *quota.Limiter, _ *fakeStore) {
		for range 2 {
			allow(t, l, "acme", false)
		}
		for i := range 10_000 {
			allow(t, l, timer.TenantID(fmt.Sprint(i)), false)
		}
		if exceeded := allow(t, l, "acme", true); exceeded == nil {
			t.Error("the limit was forgotten")
		}
	})
}

// TestPutOffOneAfterTheOther has a thousand commands exceed the accept rate at one
// instant, and each come again after its delay.
func TestPutOffOneAfterTheOther(t *testing.T) {
	const rate, commands = 20, 1000
	inBubble(t, of(quota.Limits{Accept: quota.Rate{PerSecond: rate}}), quota.Options{}, func(t *testing.T, l *quota.Limiter, _ *fakeStore) {
		seconds := make(map[int]int) // how many come in each
		var mu sync.Mutex
		tries, accepted := 0, 0
		count := func() (int, int) {
			mu.Lock()
			defer mu.Unlock()
			return tries, accepted
		}
		var try func(again bool)
		began := time.Now()
		try = func(again bool) {
			mu.Lock()
			defer mu.Unlock()
			tries++
			exceeded := allow(t, l, "acme", again)
			if exceeded == nil {
				accepted++
				return
			}
			if exceeded.Delay < time.Second || exceeded.Delay > 5*time.Minute {
				t.Errorf("delay %v", exceeded.Delay)
			}
			time.AfterFunc(exceeded.Delay, func() { try(true) })
		}
		for range commands {
			try(false)
		}
		before, done := count()
		if done != rate {
			t.Errorf("%d accepted at once, want the burst of %d", done, rate)
		}
		for done < commands {
			time.Sleep(time.Second)
			var now int
			now, done = count()
			seconds[int(time.Since(began).Seconds())], before = now-before, now
		}
		if took := time.Since(began); took > (commands/rate+5)*time.Second {
			t.Errorf("the last one was accepted after %v", took)
		}
		for second, n := range seconds {
			if n > 2*rate {
				t.Errorf("%d came again in second %d", n, second)
			}
		}
		if before > 2*commands+commands/10 {
			t.Errorf("%d tries for %d commands", before, commands)
		}
	})
}

// TestFirstComeFirstServed has fresh commands come while others were put off: they
// do not take the tokens of those. When none of those has come for so long that the
// bucket is full, they do.
func TestFirstComeFirstServed(t *testing.T) {
	inBubble(t, of(quota.Limits{Accept: quota.Rate{PerSecond: 1, Burst: 3}}), quota.Options{}, func(t *testing.T, l *quota.Limiter, _ *fakeStore) {
		for range 3 + 4 {
			allow(t, l, "acme", false)
		}
		time.Sleep(time.Second)
		if exceeded := allow(t, l, "acme", false); exceeded == nil {
			t.Error("a fresh command took the token of one that was put off")
		} else if exceeded.Delay != 4*time.Second {
			t.Errorf("delay %v, want 4s, behind those", exceeded.Delay)
		}
		if exceeded := allow(t, l, "acme", true); exceeded != nil {
			t.Errorf("one that was put off came for its token: %+v", exceeded)
		}
		time.Sleep(3 * time.Second)
		if exceeded := allow(t, l, "acme", false); exceeded != nil {
			t.Errorf("refused though all tokens are there: %+v", exceeded)
		}
	})
}

// TestDelaysAreBounded has a flood that would take hours.
func TestDelaysAreBounded(t *testing.T) {
	inBubble(t, of(quota.Limits{Accept: quota.Rate{PerSecond: 0.01, Burst: 1}}), quota.Options{}, func(t *testing.T, l *quota.Limiter, _ *fakeStore) {
		delays := make(map[time.Duration]bool)
		for range 1000 {
			if exceeded := allow(t, l, "acme", false); exceeded != nil {
				delays[exceeded.Delay] = true
				if exceeded.Delay < time.Second || exceeded.Delay > 5*time.Minute {
					t.Fatalf("delay %v", exceeded.Delay)
				}
			}
		}
		if len(delays) < 900 {
			t.Errorf("%d different delays of 1000", len(delays))
		}
		if err := l.Use(of(quota.Limits{Accept: quota.Rate{PerSecond: 1000}})); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if exceeded := allow(t, l, "acme", false); exceeded != nil {
			t.Errorf("the limit was raised, but %+v", exceeded)
		}
	})
}

// TestMessageWithManyTimers has messages of more timers than the burst.
func TestMessageWithManyTimers(t *testing.T) {
	inBubble(t, of(quota.Limits{Accept: quota.Rate{PerSecond: 10}}), quota.Options{}, func(t *testing.T, l *quota.Limiter, _ *fakeStore) {
		commands := make([]timer.ScheduleTimer, 50)
		for i := range commands {
			commands[i].TenantID = "acme"
		}
		began := time.Now()
		for accepted := 0; accepted < 10; {
			exceeded, err := l.Allow(t.Context(), nil, true, commands...)
			if err != nil {
				t.Fatal(err)
			}
			if exceeded != nil {
				time.Sleep(exceeded.Delay)
				continue
			}
			if accepted == 3 {
				l.Done("acme", len(commands)) // its tokens are there for the next try
				if exceeded, _ = l.Allow(t.Context(), nil, true, commands...); exceeded != nil {
					t.Errorf("after a failure: %+v", exceeded)
				}
			}
			accepted++
		}
		if took := time.Since(began); took < 40*time.Second || took > 50*time.Second {
			t.Errorf("500 timers took %v at 10 a second", took)
		}
	})
}
