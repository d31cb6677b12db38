package quota

import (
	"math"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// A tenant that has used its fire rate waits until it may fire this part of a second's number
// again. So it fires in ten small transactions a second, not in a thousand.
const portion = 0.1

// Allowance returns how many timers of each tenant may fire at a time, or nil if no tenant is
// limited. It returns the same number for a tenant until the next call of Allowance. No
// tokens are taken before [Limiter.Fired].
func (l *Limiter) Allowance(now time.Time) timer.Allowance {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.free {
		l.asked = nil
		return nil
	}
	asked := make(map[timer.TenantID]int)
	l.asked = asked
	return func(tenant timer.TenantID) int {
		l.mu.Lock()
		defer l.mu.Unlock()
		n, again := asked[tenant]
		if !again {
			n = l.allowed(tenant, now)
			asked[tenant] = n
		}
		return n
	}
}

// unlimited is the allowance of a tenant without a limit.
const unlimited = math.MaxInt

func (l *Limiter) allowed(tenant timer.TenantID, now time.Time) int {
	rate := l.config.Of(tenant).Fire
	if rate.PerSecond == 0 {
		return unlimited
	}
	u, s := l.usage(tenant), rate.share(l.instances())
	u.fire.fill(now, s)
	if u.waits && u.fire.until(s.portion(), s) > 0 {
		l.hold(tenant, now)
		return 0
	}
	u.waits = false
	return u.fire.has()
}

// portion is how many tokens a tenant that has used its fire rate waits for.
func (s share) portion() float64 { return max(1, math.Floor(s.rate*portion)) }

// Fired reports the timers that have fired at a time, within the last Allowance. It returns
// when the next tenant that may have more timers due may fire again: now if one still may,
// the zero time if there is none. Expired timers take nothing of the fire rate.
func (l *Limiter) Fired(now time.Time, events []timer.DueTimeReached) (again time.Time) {
	fired, expired := make(map[timer.TenantID]int), make(map[timer.TenantID]int)
	for i := range events {
		fired[events[i].TenantID]++
		if events[i].State() == timer.Expired {
			expired[events[i].TenantID]++
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for tenant := range fired {
		if u, ok := l.usages[tenant]; ok {
			u.live.decremented = true
		}
	}
	for tenant, allowed := range l.asked {
		n := fired[tenant]
		if n == 0 && allowed > 0 {
			continue // the tenant has none due
		}
		at := now
		if rate := l.config.Of(tenant).Fire; allowed != unlimited && rate.PerSecond > 0 {
			u, s := l.usage(tenant), rate.share(l.instances())
			n -= expired[tenant]
			u.fire.take(n)
			if n >= allowed {
				u.waits = true
				l.hold(tenant, now)
				at = now.Add(u.fire.until(s.portion(), s))
			}
		}
		if again.IsZero() || at.Before(again) {
			again = at
		}
	}
	return again
}
