package quota

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// An Exceeded says which limit commands exceed.
type Exceeded struct {
	Policy Policy        // what is to become of the commands: Delay or DeadLetter
	Delay  time.Duration // after which to try again, 1 s to 5 min
	Detail string        // names the limit, for people
	First  bool          // the tenant exceeded none for a minute
}

// Bounds of a delay.
const (
	minDelay = time.Second
	maxDelay = 5 * time.Minute
)

// A Reservation is the permission to apply commands of one tenant. It must be
// ended with one call of Done or Cancel. The zero value is that of a tenant
// without limits.
type Reservation struct {
	limiter *Limiter
	usage   *usage
	tokens  int // taken of the accept rate
	timers  int // that the commands may add
}

// A verdict is the answer to commands without asking the store.
type verdict uint8

const (
	granted   verdict = iota
	tooFast           // the accept rate is used up
	tooMany           // as many timers wait as may
	uncounted         // the timers that wait must be counted first
)

// Reserve returns the permission to apply commands, all of one tenant and one
// message, or which limit they exceed. Again says that they were delivered
// before: then they go before those that come for the first time. Far below the
// limits it neither blocks nor asks the store; at the limit of live timers it
// may wait for commands of the tenant that are on their way to the store. It
// returns an error only if the store does, or if ctx ends.
func (l *Limiter) Reserve(ctx context.Context, store timer.Reader, again bool, commands ...timer.ScheduleTimer) (Reservation, *Exceeded, error) {
	tenant, n := commands[0].TenantID, len(commands)
	for counted := false; ; {
		r, limits, v := l.take(tenant, n, n, again, counted)
		switch v {
		case granted:
			return r, nil, nil
		case tooFast:
			return r, l.exceeded(tenant, limits, n, v), nil
		case uncounted:
			var err error
			if counted, err = l.count(ctx, store, tenant, n); err != nil {
				return r, nil, err
			}
			continue
		}
		if !l.mayWait(limits.Policy) { // it is found out when the commands come again
			return r, l.exceeded(tenant, limits, n, v), nil
		}
		added, err := l.added(ctx, store, commands)
		l.waiting.Add(-1)
		if err != nil {
			return r, nil, err
		}
		if added < n {
			switch r, limits, v = l.take(tenant, n, added, again, true); v {
			case granted:
				return r, nil, nil
			case uncounted: // something happened meanwhile
				counted = false
				continue
			}
		}
		return r, l.exceeded(tenant, limits, n, v), nil
	}
}

// take reserves tokens, and timers that the commands may add: both or neither.
// Fresh says that the timers were counted for them. It returns the limits that decided,
// which may be others a moment later.
func (l *Limiter) take(tenant timer.TenantID, tokens, timers int, again, fresh bool) (Reservation, Limits, verdict) {
	l.mu.Lock()
	defer l.mu.Unlock()
	limits := l.config.Of(tenant)
	if limits.Accept.PerSecond == 0 && limits.Live == 0 {
		return Reservation{}, limits, granted
	}
	now, n := l.clock.Now(), l.instances()
	u := l.usage(tenant)
	r := Reservation{limiter: l, usage: u}
	if limits.Accept.PerSecond > 0 {
		s := limits.Accept.share(n)
		u.accept.fill(now, s)
		if float64(u.accept.has()) < s.needed(tokens) || !again && u.turn.After(now) && !u.accept.full(now, s) {
			return Reservation{}, limits, tooFast
		}
		r.tokens = tokens
	}
	if limits.Live > 0 && timers > 0 {
		if v := u.live.check(int64(timers), limits.Live, now, fresh, n); v != granted {
			return Reservation{}, limits, v
		}
		u.live.reserved += int64(timers)
		r.timers = timers
	}
	u.accept.take(r.tokens)
	return r, limits, granted
}

// maxWaiting is how many commands wait for a look-up if others can come again later:
// those that wait keep commands of other tenants from being handled.
const maxWaiting = 16

// mayWait reports whether a command may wait for a look-up, and counts it then.
func (l *Limiter) mayWait(p Policy) bool {
	if n := l.waiting.Add(1); n > maxWaiting && p != DeadLetter {
		l.waiting.Add(-1)
		return false
	}
	return true
}

// added returns how many of the commands, or the first ones of them that are more
// than may be, add a timer: their keys have none that waits.
func (l *Limiter) added(ctx context.Context, store timer.Reader, commands []timer.ScheduleTimer) (n int, err error) {
	select {
	case l.lookups <- struct{}{}:
		defer func() { <-l.lookups }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	l.mu.Lock()
	tenant := commands[0].TenantID
	most := l.config.Of(tenant).Live - l.usage(tenant).live.all()
	l.mu.Unlock()
	for i, c := range commands {
		entry, err := store.Get(ctx, c.Key)
		switch {
		case err != nil && !errors.Is(err, timer.ErrNotFound):
			return 0, err
		case err == nil && entry.State == timer.Scheduled:
		default:
			n++
		}
		if int64(n) > most {
			return n + len(commands) - i - 1, nil
		}
	}
	return n, nil
}

// Done says what became of the commands.
func (r Reservation) Done(results ...timer.Result) {
	if r.limiter == nil {
		return
	}
	r.limiter.mu.Lock()
	defer r.limiter.mu.Unlock()
	for _, result := range results {
		if result.Outcome == timer.DidSchedule {
			r.usage.live.add()
		}
	}
	r.usage.live.end(int64(r.timers))
}

// Cancel says that the commands failed, or that it is not known what they did. It
// takes another reservation to try again.
func (r Reservation) Cancel() {
	if r.limiter == nil {
		return
	}
	r.limiter.mu.Lock()
	defer r.limiter.mu.Unlock()
	r.usage.accept.take(-r.tokens)
	r.usage.live.invalidate()
	r.usage.live.end(int64(r.timers))
}

// exceeded returns which of its limits n commands of the tenant exceed, and when to
// try again.
func (l *Limiter) exceeded(tenant timer.TenantID, limits Limits, n int, v verdict) *Exceeded {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, u := l.clock.Now(), l.usage(tenant)
	e := &Exceeded{Policy: limits.Policy, First: u.exceeded.IsZero() || now.Sub(u.exceeded) >= quietTime}
	u.exceeded = now
	if e.Policy == "" {
		e.Policy = Delay
	}
	if v == tooFast {
		e.Delay = u.putOff(now, n, limits.Accept.share(l.instances()))
		e.Detail = fmt.Sprintf("accept_rate: tenant %s may have %s timers a second accepted", tenant, number(limits.Accept.PerSecond))
		return e
	}
	e.Delay = between(5*time.Second, 25*time.Second)
	e.Detail = fmt.Sprintf("live_timers: tenant %s may have %d timers waiting", tenant, limits.Live)
	if int64(n) > limits.Live {
		e.Policy = DeadLetter // it would never be accepted
		e.Detail += fmt.Sprintf("; the message has %d", n)
	}
	return e
}

// putOff returns after how long n commands may be tried again that exceed the
// accept rate: when there are tokens for them and for all that were put off
// before, so that those come back one after the other.
func (u *usage) putOff(now time.Time, n int, s share) time.Duration {
	if earliest := now.Add(u.accept.until(s.needed(n), s)); u.turn.Before(earliest) {
		u.turn = earliest
	}
	delay := u.turn.Sub(now)
	if delay >= maxDelay {
		return between(maxDelay/2, maxDelay)
	}
	u.turn = u.turn.Add(min(s.time(float64(n)), maxDelay-delay))
	return max(delay, minDelay)
}

func between(least, most time.Duration) time.Duration {
	return least + time.Duration(rand.Int64N(int64(most-least)))
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// Decremented says that fewer timers of the tenant wait: one was canceled.
func (l *Limiter) Decremented(tenant timer.TenantID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if u, ok := l.usages[tenant]; ok {
		u.live.decremented = true
	}
}

// quietTime is how long a tenant must have kept its limits before it is reported
// again.
const quietTime = time.Minute
