package quota

import (
	"math"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// A tenant that has fired all it may waits until it may fire this much of a
// second's worth again: ten small transactions a second, not a thousand.
const portion = 0.1

// Allowance returns how many timers of each tenant may fire at a time, nil if no
// tenant is limited. It says the same until it is asked for the next one, and
// nothing is taken before [Keeper.Fired].
func (k *Keeper) Allowance(now time.Time) timer.Allowance {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.free {
		k.asked = nil
		return nil
	}
	asked := make(map[timer.TenantID]int)
	k.asked = asked
	return func(tenant timer.TenantID) int {
		k.mu.Lock()
		defer k.mu.Unlock()
		n, again := asked[tenant]
		if !again {
			n = k.allowed(tenant, now)
			asked[tenant] = n
		}
		return n
	}
}

// unlimited is an allowance.
const unlimited = math.MaxInt

func (k *Keeper) allowed(tenant timer.TenantID, now time.Time) int {
	rate := k.book.Of(tenant).Fire
	if rate.PerSecond == 0 {
		return unlimited
	}
	a, s := k.account(tenant), rate.share(k.instances())
	a.fire.fill(now, s)
	if a.held && a.fire.until(s.portion(), s) > 0 {
		return 0
	}
	a.held = false
	return a.fire.has()
}

// portion is what a tenant waits for that has fired all it may.
func (s share) portion() float64 { return max(1, math.Floor(s.rate*portion)) }

// Fired tells what has fired at a time, with the last Allowance. It returns when
// a tenant that may have more due may fire again: now if there is one that may
// still, the zero time if there is none.
func (k *Keeper) Fired(now time.Time, events []timer.DueTimeReached) (again time.Time) {
	fired := make(map[timer.TenantID]int)
	for i := range events {
		fired[events[i].TenantID]++
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for tenant := range fired {
		if a, ok := k.accounts[tenant]; ok {
			a.live.fewer = true
		}
	}
	n := k.instances()
	for tenant, allowed := range k.asked {
		switch rate := k.book.Of(tenant).Fire; {
		case allowed == unlimited, rate.PerSecond == 0:
			if fired[tenant] > 0 {
				again = now
			}
		default:
			a, s := k.account(tenant), rate.share(n)
			a.fire.take(fired[tenant])
			at := now
			if fired[tenant] < allowed {
				if fired[tenant] == 0 {
					continue // it has none due
				}
			} else {
				a.held = true
				at = now.Add(a.fire.until(s.portion(), s))
			}
			if again.IsZero() || at.Before(again) {
				again = at
			}
		}
	}
	return again
}
