package quota_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// delayed returns how many commands of a tenant may wait that come for the first
// time.
func delayed(k *quota.Keeper, tenant timer.TenantID) (n int) {
	for k.Delay(tenant, 1) {
		n++
	}
	return n
}

func TestPlacesToWaitAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keeper(t, quota.Book{}, quota.Options{Waiting: 1000})
		if got := delayed(k, "a"); got != 500 {
			t.Errorf("one tenant alone has %d places, want 500", got)
		}
		if got := delayed(k, "b"); got != 250 {
			t.Errorf("the next has %d, want 250", got)
		}
		time.Sleep(1200 * time.Millisecond) // all are free again
		a, b := 0, 0
		for range 1000 {
			if k.Delay("a", 1) {
				a++
			}
			if k.Delay("b", 1) {
				b++
			}
		}
		if a+b < 660 || a-b > 1 {
			t.Errorf("two tenants have %d and %d, want a third each", a, b)
		}
		half := keeper(t, quota.Book{}, quota.Options{Waiting: 1000, Instances: func() int { return 2 }})
		if got := delayed(half, "a"); got != 250 {
			t.Errorf("one of two instances has %d places for a tenant, want 250", got)
		}
	})
}

func TestWhoWaitsKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keeper(t, quota.Book{}, quota.Options{Waiting: 20})
		if got := delayed(k, "a"); got != 10 {
			t.Fatalf("%d places, want 10", got)
		}
		for i, pause := range []time.Duration{time.Second, 5 * time.Second, 25 * time.Second, 25 * time.Second, 25 * time.Second} {
			time.Sleep(pause)
			for range 10 {
				if k.Delay("a", 1) {
					t.Fatalf("delivery %d: a new one took the place of one that waits", i+2)
				}
				if !k.Delay("a", i+2) {
					t.Fatalf("delivery %d: lost its place", i+2)
				}
			}
		}
		if k.Delay("a", 1) {
			t.Error("more than there are places")
		}
		time.Sleep(25 * time.Second)
		for range 4 {
			k.Arrived("a", 7)
		}
		k.Arrived("a", 1)
		k.Arrived("b", 7)
		if got := delayed(k, "a"); got != 4 {
			t.Errorf("%d places after 4 commands were accepted, want 4", got)
		}
		time.Sleep(time.Minute) // the rest went to other instances
		if got := delayed(k, "a"); got != 10 {
			t.Errorf("%d places in the end, want 10", got)
		}
	})
}

func TestWhoComesFromElsewhereNeedsAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keeper(t, quota.Book{}, quota.Options{Waiting: 2})
		for i, step := range []struct {
			deliveries int
			want       bool
		}{{9, true}, {9, true}, {3, false}} { // the second may be the first again, the third can't
			if got := k.Delay("a", step.deliveries); got != step.want {
				t.Errorf("%d: a place is %v, want %v", i, got, step.want)
			}
		}
	})
}
