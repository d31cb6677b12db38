package quota

import (
	"context"
	"errors"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// A live says how many timers of a tenant wait: the timers that were counted, the timers that
// this instance has added since, and the timers that commands in flight may add. The number
// is too high if timers have fired or were canceled since, or if commands were in flight
// during the count, so the limiter counts again before it refuses a command. A count while a
// host's transaction is open misses the timers that the transaction has scheduled. So after
// its commit that many timers may exceed the limit. If a tenant has few timers, the limiter
// counts them only once.
type live struct {
	counted     int64     // timers that waited at the count
	added       int64     // timers that were new since
	pending     int64     // commands in flight
	at          time.Time // when they were counted; zero: they must be counted
	decremented bool      // fewer wait since the count
}

// These are the greatest ages of a count.
const (
	fullAge = time.Second      // if the limit is reached
	halfAge = time.Second      // if other instances may have added timers, above half of the limit
	lowAge  = 10 * time.Second // if other instances may have added timers, below half of the limit
)

// all returns how many timers wait at most, without commands in flight. It assumes that each
// other instance has added as many as this one since the count.
func (l *live) all(instances int) int64 { return l.counted + l.added*int64(instances) }

// fits reports whether n more timers may wait.
func (l *live) fits(n, limit int64, instances int) bool {
	return l.all(instances)+l.pending+n <= limit
}

// stale reports whether the timers must be counted before n more are allowed or refused.
func (l *live) stale(n, limit int64, now time.Time, instances int) bool {
	age := now.Sub(l.at)
	switch {
	case l.at.IsZero():
		return true
	case !l.fits(n, limit, instances):
		return l.decremented || age >= fullAge || instances > 1 && l.added > 0
	case instances == 1:
		return false
	case l.all(instances) >= limit/2:
		return age >= halfAge
	}
	return age >= lowAge
}

// fit reports whether the tenant may have the timers that its commands add, and returns how
// many these are at most. At the limit it asks the store.
func (l *Limiter) fit(ctx context.Context, store timer.Reader, limits Limits, commands []timer.ScheduleTimer) (fits bool, added int64, err error) {
	tenant, n := commands[0].TenantID, int64(len(commands))
	fits, stale := l.admit(tenant, n, n, limits.Live, true)
	if stale {
		if err := l.count(ctx, store, tenant); err != nil {
			return false, n, err
		}
		fits, _ = l.admit(tenant, n, n, limits.Live, false)
	}
	if fits || !l.mayWait(limits.Policy) { // the next delivery finds out whether they add any
		return fits, n, nil
	}
	defer l.waiting.Add(-1)
	added, err = l.adds(ctx, store, limits.Live, commands)
	if err != nil || added == n {
		return false, added, err
	}
	fits, _ = l.admit(tenant, added, n, limits.Live, false)
	return fits, added, nil
}

// admit reports whether commands that add so many timers may go to the store. If so, it
// records that they are in flight. Stale says that the timers must be counted first, if the
// caller can ask the store.
func (l *Limiter) admit(tenant timer.TenantID, added, commands, limit int64, ask bool) (fits, stale bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	live, instances := &l.usage(tenant).live, l.instances()
	if ask && live.stale(added, limit, l.clock.Now(), instances) {
		return false, true
	}
	if added > 0 && !live.fits(added, limit, instances) {
		return false, false
	}
	live.pending += commands
	return true, false
}

// count counts the timers of a tenant, once for all callers that wait for it.
func (l *Limiter) count(ctx context.Context, store timer.Reader, tenant timer.TenantID) error {
	done := l.counting.DoChan(string(tenant), func() (any, error) {
		l.mu.Lock()
		l.usage(tenant).live.decremented = false
		l.mu.Unlock()
		counts, err := store.Stats(context.WithoutCancel(ctx), tenant)
		if err != nil {
			return nil, err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		live := &l.usage(tenant).live
		live.counted, live.added, live.at = counts.Scheduled, 0, l.clock.Now()
		return nil, nil
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
	maxWaiting = 16 // commands that wait for a look-up, if they can be delivered again later
)

// mayWait reports whether a command may wait for a look-up, and counts it if so.
func (l *Limiter) mayWait(p Policy) bool {
	if n := l.waiting.Add(1); n > maxWaiting && p != DeadLetter {
		l.waiting.Add(-1)
		return false
	}
	return true
}

// adds returns how many of the commands add a timer, because no timer of their key waits. It
// stops counting above the limit.
func (l *Limiter) adds(ctx context.Context, store timer.Reader, limit int64, commands []timer.ScheduleTimer) (n int64, err error) {
	select {
	case l.lookups <- struct{}{}:
		defer func() { <-l.lookups }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	l.mu.Lock()
	most := limit - l.usage(commands[0].TenantID).live.counted
	l.mu.Unlock()
	for i, c := range commands {
		entry, err := store.Get(ctx, c.Key)
		switch {
		case err != nil && !errors.Is(err, timer.ErrNotFound):
			return 0, err
		case err == nil && entry.State == timer.Scheduled:
			continue
		}
		n++
		if n > most {
			return n + int64(len(commands)-i-1), nil
		}
	}
	return n, nil
}

// Decremented says that fewer timers of the tenant wait, because one was canceled.
func (l *Limiter) Decremented(tenant timer.TenantID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if u, ok := l.usages[tenant]; ok {
		u.live.decremented = true
	}
}
