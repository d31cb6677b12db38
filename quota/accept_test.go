package quota_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

var clock = timer.ClockFunc(time.Now)

func limiter(t *testing.T, config quota.Config, opt quota.Options) *quota.Limiter {
	t.Helper()
	k, err := quota.New(config, clock, opt)
	must(t, err)
	return k
}

// inBubble runs a test with a Limiter and an empty store, in a bubble.
func inBubble(t *testing.T, config quota.Config, opt quota.Options, test func(t *testing.T, k *quota.Limiter, s *fakeStore)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, limiter(t, config, opt), new(fakeStore)) })
}

func of(l quota.Limits) quota.Config { return quota.Config{Default: l} }

// command returns one for a key.
func command(key timer.Key) timer.ScheduleTimer { return timer.ScheduleTimer{Key: key} }

// take reports whether one command of a tenant is allowed, without a store.
func take(k *quota.Limiter, tenant timer.TenantID) bool {
	exceeded, err := k.Allow(context.Background(), noStore{}, quota.Again, timer.ScheduleTimer{Key: timer.Key{TenantID: tenant}})
	return err == nil && exceeded == nil
}

// A noStore fails.
type noStore struct{ timer.Reader }

func (noStore) Stats(context.Context, timer.TenantID) (timer.Stats, error) {
	return timer.Stats{}, errors.New("asked the store")
}

// done reports that a timer of a tenant was scheduled.
func done(k *quota.Limiter, tenant timer.TenantID) {
	k.Done([]timer.ScheduleTimer{command(timer.Key{TenantID: tenant})}, []timer.Result{{Outcome: timer.DidSchedule}})
}

// taken returns how many commands of a tenant are accepted now.
func taken(k *quota.Limiter, tenant timer.TenantID) (n int) {
	for take(k, tenant) {
		done(k, tenant)
		n++
	}
	return n
}

func TestAcceptRateIsKept(t *testing.T) {
	inBubble(t, quota.Config{
		Default: quota.Limits{Accept: quota.Rate{PerSecond: 10, Burst: 3}},
		Tenants: map[timer.TenantID]quota.Limits{"slow": {Accept: quota.Rate{PerSecond: 0.5}}, "fast": {Accept: quota.Rate{PerSecond: 100}}},
	}, quota.Options{}, func(t *testing.T, k *quota.Limiter, _ *fakeStore) {
		for _, step := range []struct {
			after             time.Duration
			other, slow, fast int
		}{
			{0, 3, 1, 100},
			{0, 0, 0, 0},
			{99 * time.Millisecond, 0, 0, 9},
			{time.Millisecond, 1, 0, 1},
			{1900 * time.Millisecond, 3, 1, 100},
			{time.Hour, 3, 1, 100},
		} {
			time.Sleep(step.after)
			for tenant, want := range map[timer.TenantID]int{"other": step.other, "slow": step.slow, "fast": step.fast} {
				if got := taken(k, tenant); got != want {
					t.Errorf("%v later %d commands of %s are accepted, want %d", step.after, got, tenant, want)
				}
			}
		}
	})
}

func TestInstancesShareRates(t *testing.T) {
	var instances atomic.Int64
	opt := quota.Options{Instances: func() int { return int(instances.Load()) }}
	inBubble(t, of(quota.Limits{Accept: quota.Rate{PerSecond: 30, Burst: 60}}), opt, func(t *testing.T, k *quota.Limiter, _ *fakeStore) {
		for n, want := range map[int64]int{1: 60, 3: 20, 0: 60, 100: 1} {
			instances.Store(n)
			time.Sleep(time.Hour)
			if got := taken(k, "acme"); got != want {
				t.Errorf("with %d instances %d at once, want %d", n, got, want)
			}
		}
		instances.Store(3)
		time.Sleep(time.Second)
		if got := taken(k, "acme"); got != 10 {
			t.Errorf("with 3 instances %d a second, want 10", got)
		}
	})
}

func TestAClockThatIsSetBackGivesNothing(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	k, err := quota.New(of(quota.Limits{Accept: quota.Rate{PerSecond: 10}}), timer.ClockFunc(func() time.Time { return now }), quota.Options{})
	must(t, err)
	for _, step := range []struct {
		by   time.Duration
		want int
	}{{0, 10}, {-time.Hour, 0}, {100 * time.Millisecond, 1}, {time.Hour, 10}} {
		now = now.Add(step.by)
		if got := taken(k, "acme"); got != step.want {
			t.Errorf("%v later %d are accepted, want %d", step.by, got, step.want)
		}
	}
}

func TestLimitsAreChangedAtWork(t *testing.T) {
	inBubble(t, of(quota.Limits{Accept: quota.Rate{PerSecond: 1, Burst: 5}, Horizon: time.Hour}), quota.Options{}, func(t *testing.T, k *quota.Limiter, _ *fakeStore) {
		if got := taken(k, "acme"); got != 5 {
			t.Errorf("%d accepted, want 5", got)
		}
		if err := k.Use(of(quota.Limits{Accept: quota.Rate{PerSecond: -1}})); err == nil {
			t.Error("wrong limits were taken")
		}
		if got := k.HorizonOr("acme", 0); got != time.Hour {
			t.Errorf("horizon %v", got)
		}
		must(t, k.Use(of(quota.Limits{Accept: quota.Rate{PerSecond: 100}, Horizon: time.Minute})))
		time.Sleep(100 * time.Millisecond)
		if got := taken(k, "acme"); got != 10 {
			t.Errorf("%d accepted at the new rate, want 10", got)
		}
		if got := k.HorizonOr("acme", 0); got != time.Minute {
			t.Errorf("new horizon %v", got)
		}
		if exceeded, err := k.Allow(t.Context(), new(fakeStore), quota.Again, command(call(0))); err != nil || exceeded == nil || exceeded.Policy != quota.Delay || exceeded.Detail != "accept_rate: tenant acme may have 100 timers a second accepted" {
			t.Errorf("exceeded %+v, %v", exceeded, err)
		}
	})
}

// A tenantOf8 has timers call-0 to call-7. Each Get calls asked first.
type tenantOf8 struct {
	timer.Reader
	asked func()
}

func (tenantOf8) Stats(context.Context, timer.TenantID) (timer.Stats, error) {
	return timer.Stats{Counts: timer.Counts{Scheduled: 8}}, nil
}

func (r tenantOf8) Get(_ context.Context, k timer.Key) (timer.Entry, error) {
	r.asked()
	if k.ServiceCallID < "call-8" {
		return timer.Entry{State: timer.Scheduled}, nil
	}
	return timer.Entry{}, timer.ErrNotFound
}

// calls returns commands for keys from call-first on.
func calls(first, n int) (commands []timer.ScheduleTimer) {
	for i := range n {
		commands = append(commands, command(timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(fmt.Sprint("call-", first+i))}))
	}
	return commands
}

// TestLimitsAreLoadedWhileKeysAreLookedUp of three timers that move and two new ones,
// after which the tenant has as many as it may.
func TestLimitsAreLoadedWhileKeysAreLookedUp(t *testing.T) {
	t.Parallel()
	config := of(quota.Limits{Live: 10, Policy: quota.DeadLetter})
	k := limiter(t, config, quota.Options{})
	again := sync.OnceFunc(func() { _ = k.Use(config) })
	if exceeded, err := k.Allow(t.Context(), tenantOf8{asked: again}, quota.Fresh, calls(5, 5)...); err != nil || exceeded != nil {
		t.Errorf("%v, %+v, want it granted", err, exceeded)
	}
}

// TestFewCommandsWaitForALookUp of keys, at a store that does not answer: waiting
// ones keep commands of other tenants from being handled.
func TestFewCommandsWaitForALookUp(t *testing.T) {
	inBubble(t, of(quota.Limits{Live: 8}), quota.Options{}, func(t *testing.T, k *quota.Limiter, _ *fakeStore) {
		answer := make(chan struct{})
		store := tenantOf8{asked: func() { <-answer }}
		var waiting atomic.Int64
		for range 1000 {
			waiting.Add(1)
			go func() {
				defer waiting.Add(-1)
				if exceeded, err := k.Allow(t.Context(), store, quota.Fresh, calls(8, 1)...); err != nil || exceeded == nil {
					t.Errorf("%v, %v, want that it exceeds the quota", exceeded, err)
				}
			}()
		}
		synctest.Wait()
		if n := waiting.Load(); n > 20 {
			t.Errorf("%d commands wait", n)
		}
		close(answer)
		synctest.Wait()
		if n := waiting.Load(); n > 0 {
			t.Errorf("%d commands wait for ever", n)
		}
	})
}

func TestWrongLimitsAreRefusedWithAllThatIsWrong(t *testing.T) {
	t.Parallel()
	nan := 0.0
	nan /= nan
	_, err := quota.New(quota.Config{
		Default: quota.Limits{Live: -1, Horizon: -1, Policy: "drop"},
		Tenants: map[timer.TenantID]quota.Limits{"_": {}, "acme": {Accept: quota.Rate{PerSecond: nan}, Fire: quota.Rate{Burst: -1}}},
	}, clock, quota.Options{})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"default: {Live:-1", "Policy:drop", "tenantId", "tenant acme: {Live:0 Accept:{PerSecond:NaN", "Burst:-1"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error does not say %q:\n%v", want, err)
		}
	}
}

// allow asks for one command, without a store.
func allow(t *testing.T, l *quota.Limiter, tenant timer.TenantID, turn quota.Turn) *quota.Exceeded {
	t.Helper()
	exceeded, err := l.Allow(t.Context(), nil, turn, timer.ScheduleTimer{Key: timer.Key{TenantID: tenant}})
	must(t, err)
	return exceeded
}

// TestTenantsAreForgotten has a hundred thousand of them, a thousand at a time.
func TestTenantsAreForgotten(t *testing.T) {
	inBubble(t, of(quota.Limits{Accept: quota.Rate{PerSecond: 1}, Fire: quota.Rate{PerSecond: 100}}), quota.Options{}, func(t *testing.T, l *quota.Limiter, _ *fakeStore) {
		most := 0
		for i := range 100_000 {
			tenant := timer.TenantID(fmt.Sprint(i))
			if exceeded := allow(t, l, tenant, quota.Fresh); exceeded != nil {
				t.Fatal("refused")
			}
			done(l, tenant)
			l.Allowance(time.Now())(tenant)
			l.Fired(time.Now(), []timer.DueTimeReached{{Key: timer.Key{TenantID: tenant}}})
			for range 10 { // its turn is 10 s from now
				allow(t, l, tenant, quota.Fresh)
			}
			time.Sleep(10 * time.Second / 1000)
			if i%1000 == 0 {
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
			allow(t, l, "acme", quota.Fresh)
		}
		for i := range 10_000 {
			allow(t, l, timer.TenantID(fmt.Sprint(i)), quota.Fresh)
		}
		if exceeded := allow(t, l, "acme", quota.Again); exceeded == nil {
			t.Error("the limit was forgotten")
		}
	})
}

// TestWaitingCommandsTakeTheWholeRate has a thousand commands wait, which are tried in their
// order until one exceeds the rate, and again after its delay.
func TestWaitingCommandsTakeTheWholeRate(t *testing.T) {
	for _, burst := range []int{0, 2, 1000} {
		t.Run(fmt.Sprint(burst), func(t *testing.T) {
			inBubble(t, of(quota.Limits{Accept: quota.Rate{PerSecond: 20, Burst: burst}}), quota.Options{}, func(t *testing.T, l *quota.Limiter, _ *fakeStore) {
				began, tries := time.Now(), 0
				for accepted := 0; accepted < 1000+burst; {
					tries++
					exceeded := allow(t, l, "acme", quota.Again)
					if exceeded == nil {
						accepted++
						continue
					}
					if fresh := allow(t, l, "acme", quota.Fresh); fresh == nil {
						t.Fatal("a fresh command came before the waiting ones")
					}
					time.Sleep(exceeded.Delay)
				}
				if took := time.Since(began); took < 49*time.Second || took > 51*time.Second || tries > 2000+burst {
					t.Errorf("burst %d: %d tries in %v, want 1000 commands in 50 s", burst, tries, took)
				}
			})
		})
	}
}

// TestFirstComeFirstServed has fresh commands come while others wait for the rate: they do not
// take the tokens of the others. They do once the bucket is full, because none of the others has
// come for a while.
func TestFirstComeFirstServed(t *testing.T) {
	inBubble(t, of(quota.Limits{Accept: quota.Rate{PerSecond: 1, Burst: 3}}), quota.Options{}, func(t *testing.T, l *quota.Limiter, _ *fakeStore) {
		for range 3 + 4 {
			allow(t, l, "acme", quota.Fresh)
		}
		time.Sleep(999 * time.Millisecond)
		if exceeded := allow(t, l, "acme", quota.Fresh); exceeded == nil || exceeded.Delay != time.Millisecond {
			t.Errorf("a fresh command has %+v, want the delay of the waiting ones", exceeded)
		}
		time.Sleep(time.Millisecond)
		if exceeded := allow(t, l, "acme", quota.Again); exceeded != nil {
			t.Errorf("one that waited came for its token: %+v", exceeded)
		}
		time.Sleep(3 * time.Second)
		if exceeded := allow(t, l, "acme", quota.Fresh); exceeded != nil {
			t.Errorf("refused though all tokens are there: %+v", exceeded)
		}
	})
}

// TestDelaysAreBounded has a rate at which one token takes a day.
func TestDelaysAreBounded(t *testing.T) {
	inBubble(t, of(quota.Limits{Accept: quota.Rate{PerSecond: 1.0 / 86400, Burst: 1}}), quota.Options{}, func(t *testing.T, l *quota.Limiter, _ *fakeStore) {
		allow(t, l, "acme", quota.Fresh)
		if exceeded := allow(t, l, "acme", quota.Again); exceeded == nil || exceeded.Delay != 5*time.Minute {
			t.Fatalf("%+v, want a delay of 5m", exceeded)
		}
		must(t, l.Use(of(quota.Limits{Accept: quota.Rate{PerSecond: 1000}})))
		time.Sleep(time.Second)
		if exceeded := allow(t, l, "acme", quota.Fresh); exceeded != nil {
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
			exceeded, err := l.Allow(t.Context(), nil, quota.Again, commands...)
			must(t, err)
			if exceeded != nil {
				time.Sleep(exceeded.Delay)
				continue
			}
			if accepted == 3 {
				l.Done(commands, nil) // its tokens are there for the next try
				if exceeded, _ = l.Allow(t.Context(), nil, quota.Again, commands...); exceeded != nil {
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

// TestFreshCommandsWaitBehindOthers at the limit of timers, unless they add none.
func TestFreshCommandsWaitBehindOthers(t *testing.T) {
	inBubble(t, of(quota.Limits{Live: 3}), quota.Options{}, func(t *testing.T, l *quota.Limiter, s *fakeStore) {
		send(t, l, s, call(0))
		for _, step := range []struct {
			turn    quota.Turn
			call    int
			allowed bool
		}{{quota.Behind, 1, false}, {quota.Behind, 0, true}, {quota.Again, 1, true}} {
			exceeded, err := l.Allow(t.Context(), s, step.turn, command(call(step.call)))
			if err != nil || (exceeded == nil) != step.allowed || exceeded != nil && exceeded.Policy != quota.Delay {
				t.Errorf("%+v: %+v, %v", step, exceeded, err)
			}
		}
	})
}
