// Package quota limits how much of the service a tenant may have, so that no
// tenant takes the capacity that others need: how many timers may wait, how many are
// accepted and how many fire a second, and how far ahead a timer may be due.
//
// A [Config] holds the limits of all tenants: a default, and overrides. A
// [Limiter] applies them: it is asked before commands go to the store and before
// timers fire, and it is notified of the results. Its Config can be changed while
// it works.
//
//	commands ──Allow──► store ──► Done: counted, or given back
//	             └────► Exceeded ──► inbox, and again after its Delay; or dead letter
//
//	due timers ──► Allowance ──► Reach ──► Fired
//
// # Limits
//
// Accepted is a timer that the store scheduled or moved, or a command for it that
// changed nothing. A CancelTimer is never limited, and the due time of a timer
// that waits can be changed while the tenant has as many as it may have: neither
// adds a timer. Commands of one message are accepted together or not at all.
//
// A timer that is due while its tenant has fired as many as it may stays
// Scheduled until its turn comes. Nothing is ever dropped.
//
// # Several instances
//
// Each instance has an equal part of the rates. The timers that wait are counted
// in the store, which all instances share. Commands that are on their way to the store during
// the count may exceed the limit.
package quota

import (
	"cmp"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/event-service-agent/timer-service/internal/option"
	"github.com/event-service-agent/timer-service/timer"
)

// Options tune a [Limiter]. The zero value is ready to use.
type Options struct {
	Instances func() int // how many share the tenants, with this one; must not block; default 1
}

// A Limiter applies the limits of a [Config]. Make one with [New]. All methods
// are safe for concurrent use. Its memory is bounded by the tenants of the last
// minutes. A nil Limiter limits nothing.
type Limiter struct {
	clock timer.Clock
	opt   Options

	waiting atomic.Int64  // commands that wait for a look-up of keys in the store
	lookups chan struct{} // holds one value for each look-up

	counting singleflight.Group // counts the timers of a tenant

	mu      sync.Mutex
	config  Config
	free    bool // no tenant's fire rate is limited
	usages  map[timer.TenantID]*usage
	sweepAt int                          // number of usages at which unused ones are deleted
	asked   map[timer.TenantID]int       // the last Allowance for tenants with a fire rate
	held    map[timer.TenantID]time.Time // when tenants last waited for their fire rate
}

// A usage is a tenant's use of its limits.
type usage struct {
	accept, fire bucket
	turn         time.Time // when commands that exceed the accept rate may come again
	waits        bool      // it has used its fire rate
	exceeded     time.Time // when it last exceeded a limit
	live         liveCount
}

// minSweep is the number of usages from which on a sweep pays.
const minSweep = 1024

// New returns a Limiter with a Config, or an error if the Config has mistakes.
func New(config Config, clock timer.Clock, opt Options) (*Limiter, error) {
	opt.Instances = option.Func(opt.Instances, func() int { return 1 })
	l := &Limiter{clock: clock, opt: opt, lookups: make(chan struct{}, maxLookups), usages: make(map[timer.TenantID]*usage), held: make(map[timer.TenantID]time.Time), sweepAt: minSweep}
	if err := l.Use(config); err != nil {
		return nil, err
	}
	return l, nil
}

// Use applies another Config from now on. If that has mistakes, Use returns them and keeps
// the present one. The tokens that tenants have used stay used; their timers are counted
// again.
func (l *Limiter) Use(config Config) error {
	if err := config.Validate(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.config, l.free = config, config.firesFreely()
	for _, u := range l.usages {
		u.live.at = time.Time{} // timers of a tenant without a limit are not counted
		u.turn = time.Time{}
	}
	return nil
}

// limits returns the limits of a tenant, none if the Limiter is nil.
func (l *Limiter) limits(tenant timer.TenantID) Limits {
	if l == nil {
		return Limits{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.config.Of(tenant)
}

// HorizonOr returns how far ahead a timer of the tenant may be due, or otherwise if its limits
// do not say, or if the Limiter is nil.
func (l *Limiter) HorizonOr(tenant timer.TenantID, otherwise time.Duration) time.Duration {
	return cmp.Or(l.limits(tenant).Horizon, otherwise)
}

// Objective returns how late events of a tenant may be, also if the Limiter is nil.
func (l *Limiter) Objective(tenant timer.TenantID) time.Duration {
	return cmp.Or(l.limits(tenant).Objective, DefaultObjective)
}

// Expire gives a command that names no expiry the one of the limits of its tenant. It does nothing
// if the Limiter is nil, or if no timer may expire so late.
func (l *Limiter) Expire(c *timer.ScheduleTimer) {
	after := l.limits(c.TenantID).ExpireAfter
	if at := timer.RoundUp(c.DueAt).Add(after); c.ExpiresAt.IsZero() && after > 0 && timer.ValidateExpiresAt("", at, c.DueAt) == nil {
		c.ExpiresAt = at
	}
}

// instances returns how many instances share the tenants.
func (l *Limiter) instances() int { return max(1, l.opt.Instances()) }

// usage returns the usage of a tenant. The lock must be held.
func (l *Limiter) usage(tenant timer.TenantID) *usage {
	if u, ok := l.usages[tenant]; ok {
		return u
	}
	if len(l.usages) >= l.sweepAt {
		l.sweep()
	}
	u := new(usage)
	l.usages[tenant] = u
	return u
}

// sweep deletes usages that equal a new one.
func (l *Limiter) sweep() {
	now, n := l.clock.Now(), l.instances()
	maps.DeleteFunc(l.usages, func(tenant timer.TenantID, u *usage) bool {
		limits := l.config.Of(tenant)
		return u.live.pending == 0 && u.wait(now) == 0 && u.accept.full(now, limits.Accept.share(n)) && u.fire.full(now, limits.Fire.share(n))
	})
	l.sweepAt = max(minSweep, 2*len(l.usages))
}
