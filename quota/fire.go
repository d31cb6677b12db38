package quota

import (
	"maps"
	"math"
	"slices"
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
		l.held[tenant] = now
		return 0
	}
	u.waits = false
	return u.fire.has()
}

// portion returns the number of tokens that a tenant waits for after it has used its fire rate.
func (s share) portion() float64 { return max(1, math.Floor(s.rate*portion)) }

// Fired reports the timers that have fired at a time, within the last Allowance. It returns
// when the next tenant that may have more timers due may fire again: now if one still may,
// the zero time if there is none. Expired timers take nothing of the fire rate.
func (l *Limiter) Fired(now time.Time, events []timer.DueTimeReached) (again time.Time) {
	fired, reached := make(map[timer.TenantID]int), make(map[timer.TenantID]int)
	for i := range events {
		fired[events[i].TenantID]++
		if events[i].State() == timer.Reached {
			reached[events[i].TenantID]++
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for tenant := range fired {
		if u, ok := l.usages[tenant]; ok {
			u.live.fewer = true
		}
	}
	for tenant, allowed := range l.asked {
		if fired[tenant] == 0 && allowed > 0 {
			continue // the tenant has none due
		}
		at := now
		if rate := l.config.Of(tenant).Fire; allowed != unlimited && rate.PerSecond > 0 {
			u, s := l.usage(tenant), rate.share(l.instances())
			u.fire.take(reached[tenant])
			if reached[tenant] >= allowed {
				u.waits = true
				l.held[tenant] = now
				at = now.Add(u.fire.until(s.portion(), s))
			}
		}
		if again.IsZero() || at.Before(again) {
			again = at
		}
	}
	return again
}

// heldTime is how long a tenant counts as held after it has waited, because its events reach
// the broker a moment later.
const heldTime = time.Minute

// Held returns the tenants that have recently waited for their fire rate, and when. Their
// events are late because of their own limit. A nil Limiter holds none.
func (l *Limiter) Held() map[timer.TenantID]time.Time {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	maps.DeleteFunc(l.held, func(_ timer.TenantID, at time.Time) bool { return now.Sub(at).Abs() > heldTime })
	return maps.Clone(l.held)
}

// Throttled returns, in order, the tenants that have waited for their fire rate or exceeded
// another limit within the last minute. A nil Limiter throttles none.
func (l *Limiter) Throttled() []timer.TenantID {
	if l == nil {
		return nil
	}
	tenants := slices.Collect(maps.Keys(l.Held()))
	l.mu.Lock()
	defer l.mu.Unlock()
	for tenant, u := range l.usages {
		if l.clock.Now().Sub(u.exceeded).Abs() < quietTime {
			tenants = append(tenants, tenant)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(tenants)))
}

// A bucket holds the tokens of a [Rate]. It fills with time, up to the burst; the zero value
// is full. It may owe tokens, for a message with more timers than the burst.
// Golang.org/x/time/rate can do neither: it refuses a reservation of more than the burst, and
// a reservation that is canceled after its time returns no tokens.
type bucket struct {
	tokens float64
	at     time.Time // when the bucket held tokens; zero: it is full
}

// slack compensates for rounding.
const slack = 1e-6

// A share is one instance's part of a [Rate].
type share struct {
	rate  float64 // tokens a second
	burst float64 // most tokens
}

// share returns the part of one of n instances.
func (r Rate) share(n int) share {
	burst := float64(r.Burst)
	if burst == 0 {
		burst = r.PerSecond
	}
	return share{r.PerSecond / float64(n), max(1, math.Floor(burst/float64(n)))}
}

// needed returns how many tokens there must be for n commands.
func (s share) needed(n int) float64 { return min(float64(n), s.burst) }

// time returns how long it takes until that many tokens are added, rounded up to the
// millisecond.
func (s share) time(tokens float64) time.Duration {
	ms := math.Ceil(tokens / s.rate * 1000)
	return time.Duration(min(ms, float64(math.MaxInt64/int64(time.Millisecond)))) * time.Millisecond
}

// fill adds the tokens since the last fill. A clock that was set back adds none.
func (b *bucket) fill(now time.Time, s share) {
	if b.at.IsZero() {
		b.tokens = s.burst
	} else if since := now.Sub(b.at); since > 0 {
		b.tokens = min(b.tokens+s.rate*since.Seconds(), s.burst)
	}
	b.at = now
}

// has returns how many whole tokens there are.
func (b *bucket) has() int { return int(min(b.tokens+slack, math.MaxInt32)) }

// take takes tokens; fewer than 0 are given back.
func (b *bucket) take(n int) { b.tokens -= float64(n) }

// until returns how long it takes until the bucket has that many tokens, rounded up to the
// millisecond.
func (b *bucket) until(tokens float64, s share) time.Duration {
	return s.time(max(0, min(tokens, s.burst)-b.tokens))
}

// full reports whether the bucket can get no more tokens.
func (b *bucket) full(now time.Time, s share) bool {
	if b.at.IsZero() || s.rate == 0 { // a new rate begins with a full bucket
		return true
	}
	b.fill(now, s)
	return b.tokens >= s.burst
}
