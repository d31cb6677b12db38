package quota

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// An Exceeded says which limit commands exceed.
type Exceeded struct {
	Policy Policy        // how the commands are handled: Delay or DeadLetter
	Rule   Policy        // how commands are handled that are sure to exceed the limit, for people
	Delay  time.Duration // after which to try again, at most 5 min
	Detail string        // names the limit, for people
	First  bool          // the tenant exceeded no limit for a minute
	Live   bool          // the limit is the number of waiting timers; otherwise the accept rate
}

// A Turn says where commands stand among others of their tenant.
type Turn int

// These are the turns.
const (
	Fresh  Turn = iota // they come for the first time
	Behind             // they come for the first time, while others that exceeded a limit wait
	Again              // they have waited, and go before all that come for the first time
	Taken              // they were accepted before: they take nothing of the accept rate
)

// These bound a delay.
const (
	minDelay  = 10 * time.Millisecond
	maxDelay  = 5 * time.Minute
	liveDelay = 5 * time.Second // of live_timers: it is not known when a timer fires
)

// Allow returns nil if commands, all of one tenant and one message, may go to the store, and
// the limit that they exceed otherwise. Far below the limits Allow neither blocks nor asks the
// store. It returns an error only if the store does, or if ctx ends.
//
// Allow takes tokens for the commands from the accept rate. The caller reports the results of
// allowed commands with [Limiter.Done].
func (l *Limiter) Allow(ctx context.Context, store timer.Reader, turn Turn, commands ...timer.ScheduleTimer) (*Exceeded, error) {
	if l == nil {
		return nil, nil
	}
	tenant, n := commands[0].TenantID, len(commands)
	limits, free := l.take(tenant, n, turn)
	if !free {
		return l.exceeded(tenant, limits, n, 0), nil
	}
	if limits.Live == 0 {
		return nil, nil
	}
	fits, added, err := l.fit(ctx, store, limits, turn, commands)
	if err == nil && fits {
		return nil, nil
	}
	if turn != Taken {
		l.give(tenant, n)
	}
	if err != nil {
		return nil, err
	}
	return l.exceeded(tenant, limits, n, added), nil
}

// take takes n tokens of the accept rate, and reports whether there are enough. It returns
// the limits that it used, since others may apply a moment later.
func (l *Limiter) take(tenant timer.TenantID, n int, turn Turn) (Limits, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	limits := l.config.Of(tenant)
	if limits.Accept.PerSecond == 0 || turn == Taken {
		return limits, true
	}
	now, u, s := l.clock.Now(), l.usage(tenant), limits.Accept.share(l.instances())
	u.accept.fill(now, s)
	if float64(u.accept.has()) < s.needed(n) || turn != Again && u.wait(now) > 0 && !u.accept.full(now, s) {
		return limits, false
	}
	u.accept.take(n)
	return limits, true
}

// give returns tokens of the accept rate.
func (l *Limiter) give(tenant timer.TenantID, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if u, ok := l.usages[tenant]; ok {
		u.accept.take(-n)
	}
}

// Done reports the results of commands that [Limiter.Allow] allowed, in place. Without results
// they failed, or their effect is not known: then their tokens are given back, and the timers of
// their tenants are counted again.
func (l *Limiter) Done(commands []timer.ScheduleTimer, results []timer.Result) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range commands {
		u, ok := l.usages[commands[i].TenantID]
		if !ok {
			continue
		}
		u.live.pending = max(0, u.live.pending-1)
		switch {
		case len(results) == 0:
			u.accept.take(-1)
			u.live.at = time.Time{}
		case results[i].Outcome == timer.DidSchedule:
			u.live.added++
		}
	}
}

// exceeded says which limit n commands of the tenant exceed, and when to try again. If they
// add timers, the limit is the number of waiting timers, and the accept rate otherwise.
func (l *Limiter) exceeded(tenant timer.TenantID, limits Limits, n int, added int64) *Exceeded {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, u := l.clock.Now(), l.usage(tenant)
	e := &Exceeded{Policy: limits.Policy, First: u.exceeded.IsZero() || now.Sub(u.exceeded).Abs() >= quietTime}
	u.exceeded = now
	e.Policy = cmp.Or(e.Policy, Delay)
	e.Rule = e.Policy
	if added == 0 {
		e.Delay = u.putOff(now, n, limits.Accept.share(l.instances()))
		e.Detail = fmt.Sprintf("accept_rate: tenant %s may have %s timers a second accepted", tenant, number(limits.Accept.PerSecond))
		return e
	}
	e.Delay, e.Live = liveDelay, true
	e.Detail = fmt.Sprintf("live_timers: tenant %s may have %d timers waiting", tenant, limits.Live)
	if int64(n) > limits.Live {
		e.Policy, e.Rule = DeadLetter, DeadLetter // they would never be accepted
		e.Detail += fmt.Sprintf("; the message has %d", n)
	} else if u.live.all(l.instances())+added <= limits.Live {
		e.Policy = Delay // commands in flight may turn out to add no timers
	}
	return e
}

// putOff returns after how long commands that exceed the accept rate may be tried again. All
// of a tenant wait together: until there are tokens for the n commands that came first, and
// for some that wait behind them.
func (u *usage) putOff(now time.Time, n int, s share) time.Duration {
	if u.wait(now) == 0 {
		wait := max(u.accept.until(s.needed(n), s), min(time.Second, s.time(s.burst/2)))
		u.turn = now.Add(max(minDelay, min(wait, maxDelay)))
	}
	return u.turn.Sub(now)
}

// wait returns how long commands that exceed the accept rate are still put off. The end of a
// wait that was set by a clock which was set back since does not count.
func (u *usage) wait(now time.Time) time.Duration {
	wait := u.turn.Sub(now)
	if wait < 0 || wait > maxDelay {
		return 0
	}
	return wait
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// quietTime is the time without an excess after which an excess of a tenant is reported again.
const quietTime = time.Minute
