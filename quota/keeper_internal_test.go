package quota

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// TestTenantsAreForgotten has a hundred thousand of them, a thousand at a time.
func TestTenantsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, err := New(Book{Default: Limits{Accept: Rate{PerSecond: 100}, Fire: Rate{PerSecond: 100}}}, timer.ClockFunc(time.Now), Options{})
		if err != nil {
			t.Fatal(err)
		}
		most := 0
		for i := range 100_000 {
			tenant := timer.TenantID(fmt.Sprint(i))
			g, ok := k.Take(tenant)
			if !ok {
				t.Fatal("refused")
			}
			g.Done(timer.DidSchedule)
			k.Allowance(time.Now())(tenant)
			k.Fired(time.Now(), []timer.DueTimeReached{{Key: timer.Key{TenantID: tenant}}})
			k.Delay(tenant, 3)
			time.Sleep(time.Second / 30) // a place is free again after 30 s
			most = max(most, len(k.accounts))
		}
		if most > 4*leastAccounts {
			t.Errorf("%d tenants were remembered", most)
		}
		time.Sleep(time.Minute)
		k.waiting.expire(time.Now())
		if k.waiting.all != 0 || len(k.waiting.queue[2]) != 0 {
			t.Errorf("%d places are left, and %d in the queue", k.waiting.all, len(k.waiting.queue[2]))
		}
	})
}

// TestTenantsOfALimitThatIsGoneAreForgotten has them at their rates when the rates
// are lifted.
func TestTenantsOfALimitThatIsGoneAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, err := New(Book{Default: Limits{Accept: Rate{PerSecond: 0.1, Burst: 1}}}, timer.ClockFunc(time.Now), Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			g, _ := k.Take(timer.TenantID(fmt.Sprint(i)))
			g.Done(timer.DidSchedule)
		}
		if err := k.Use(Book{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		k.sweep()
		if n := len(k.accounts); n > 0 {
			t.Errorf("%d tenants are remembered", n)
		}
	})
}

// TestWhoIsOwedSomethingIsNotForgotten has one tenant that is at its limits among
// many that are not.
func TestWhoIsOwedSomethingIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, err := New(Book{Default: Limits{Accept: Rate{PerSecond: 0.001, Burst: 2}}}, timer.ClockFunc(time.Now), Options{})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			k.Take("acme")
		}
		places := 0
		for k.Delay("beta", 3) {
			places++
		}
		for i := range 10 * leastAccounts {
			k.Take(timer.TenantID(fmt.Sprint(i)))
		}
		if k.accounts["beta"].places.all != places || k.Delay("beta", 3) {
			t.Error("the places were forgotten")
		}
		if _, ok := k.Take("acme"); ok {
			t.Error("the limit was forgotten")
		}
	})
}
