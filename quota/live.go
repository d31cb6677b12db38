package quota

import (
	"context"
	"errors"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// A liveCount estimates how many timers of a tenant wait: the timers that were counted, the timers that
// this instance has added since, and the timers that commands in flight may add. The number
// is too high if timers have fired or were canceled since, or if commands were in flight
// during the count, so the limiter counts again before it refuses a command, at most once a
// second unless fewer wait. A count while a transaction of the host program is open misses the
// timers that the transaction has scheduled. So after its commit that many timers may exceed the limit.
type liveCount struct {
	counted int64     // timers that waited at the count
	added   int64     // timers that were new since
	pending int64     // commands in flight
	at      time.Time // when they were counted; zero: they must be counted
	fewer   bool      // fewer wait since the count
}

// countAge is the greatest age of a count at the limit, and with other instances, which may
// have added timers, from half of the limit on. Below that it is ten times as long.
const countAge = time.Second

// all returns the most timers that may wait, without commands in flight. It assumes that each
// other instance has added as many as this one since the count.
func (l *liveCount) all(instances int) int64 { return l.counted + l.added*int64(instances) }

// fit reports whether the tenant may have the timers that its commands add, and returns an upper
// bound of their number. Before it says no it asks the store.
func (l *Limiter) fit(ctx context.Context, store timer.Reader, limits Limits, turn Turn, commands []timer.ScheduleTimer) (fits bool, added int64, err error) {
	tenant, n := commands[0].TenantID, int64(len(commands))
	old := false
	if turn != Behind {
		fits, old = l.admit(tenant, n, n, limits.Live, false)
	}
	if old {
		if err := l.count(ctx, store, tenant); err != nil {
			return false, n, err
		}
		fits, _ = l.admit(tenant, n, n, limits.Live, true)
	}
	if fits {
		return true, n, nil
	}
	defer l.waiting.Add(-1)
	if l.waiting.Add(1) > maxWaiting && limits.Policy != DeadLetter { // the next try finds out whether they add any
		return false, n, nil
	}
	if added, err = l.adds(ctx, store, commands); err != nil || added == n || added > 0 && turn == Behind {
		return false, added, err
	}
	fits, _ = l.admit(tenant, added, n, limits.Live, true)
	return fits, added, nil
}

// admit reports whether commands that add timers may go to the store. If so, it
// records that they are in flight. Old says that the timers must be counted first, unless
// they were just counted.
func (l *Limiter) admit(tenant timer.TenantID, added, commands, limit int64, justCounted bool) (fits, old bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	live, instances := &l.usage(tenant).live, l.instances()
	fits = added == 0 || live.all(instances)+live.pending+added <= limit
	// The clock may be set back.
	age, others, most := l.clock.Now().Sub(live.at).Abs(), instances > 1, countAge
	if live.all(instances) < limit/2 { // most tenants, which are not to be counted each second
		most = 10 * countAge
	}
	if !justCounted && (live.at.IsZero() || others && age >= most || !fits && (age >= countAge || live.fewer || others && live.added > 0)) {
		return false, true
	}
	if fits {
		live.pending += commands
	}
	return fits, false
}

// count counts the timers of a tenant, once for all callers that wait for it.
func (l *Limiter) count(ctx context.Context, store timer.Reader, tenant timer.TenantID) error {
	done := l.counting.DoChan(string(tenant), func() (any, error) {
		l.mu.Lock()
		l.usage(tenant).live.fewer = false
		l.mu.Unlock()
		counts, err := store.Stats(context.WithoutCancel(ctx), tenant)
		if err == nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			live := &l.usage(tenant).live
			live.counted, live.added, live.at = counts.Scheduled, 0, l.clock.Now()
		}
		return nil, err
	})
	select {
	case counted := <-done:
		return counted.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// These bound the look-ups in the store: a flood of commands over a quota must leave
// connections to timers that fire, and handlers to commands of other tenants.
const (
	maxLookups = 2  // at once
	maxWaiting = 16 // commands that wait for a look-up, if they can come again later
)

// adds returns how many of the commands add a timer, because no timer of their key waits.
func (l *Limiter) adds(ctx context.Context, store timer.Reader, commands []timer.ScheduleTimer) (n int64, err error) {
	err = l.lookUp(ctx, store, commands, func(_ *timer.ScheduleTimer, state timer.State, _ timer.Version) bool {
		if state != timer.Scheduled {
			n++
		}
		return true
	})
	return n, err
}

// Known reports whether the store has all of the commands, or newer ones for their keys: then
// they change nothing, and were accepted before. It asks the store.
func (l *Limiter) Known(ctx context.Context, store timer.Reader, commands ...timer.ScheduleTimer) (known bool, err error) {
	known = true
	err = l.lookUp(ctx, store, commands, func(c *timer.ScheduleTimer, state timer.State, last timer.Version) bool {
		known = state != "" && !c.Latest && c.Version.Compare(last) <= 0
		return known
	})
	return known && err == nil, err
}

// lookUp calls fn with the state of the timer of each command, which is empty if there is none, and
// its version, while fn returns true.
func (l *Limiter) lookUp(ctx context.Context, store timer.Reader, commands []timer.ScheduleTimer, fn func(c *timer.ScheduleTimer, state timer.State, last timer.Version) bool) error {
	select {
	case l.lookups <- struct{}{}:
		defer func() { <-l.lookups }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for i := range commands {
		entry, err := store.Get(ctx, commands[i].Key)
		if err != nil && !errors.Is(err, timer.ErrNotFound) {
			return err
		}
		if err != nil {
			entry = timer.Entry{}
		}
		if !fn(&commands[i], entry.State, entry.Version) {
			return nil
		}
	}
	return nil
}

// Decremented says that fewer timers of the tenant wait, because one was canceled.
func (l *Limiter) Decremented(tenant timer.TenantID) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if u, ok := l.usages[tenant]; ok {
		u.live.fewer = true
	}
}
