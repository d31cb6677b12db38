package app

import (
	"context"
	"time"

	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// maxHeld is how many tenants that are paused, or over their fire rate, have their timers
// counted at a time.
const maxHeld = 100

// A heldReader is the reader of [App.Reader].
type heldReader struct {
	timer.Reader
	limits  *quota.Limiter // nil: there are none
	clock   timer.Clock
	cleared func() time.Time // when all other timers that were due had fired
}

// Reader reads timers of the store for operators. It counts due timers that are no backlog of
// the service separately: timers that wait until firing is resumed as [timer.Stats.Paused], and
// timers that wait for the fire rate of their tenant as [timer.Stats.Held].
func (a *App) Reader() timer.Reader {
	return heldReader{a.store.Timers(), a.opt.Quotas, a.opt.Clock, func() time.Time { return a.poller.Status().Cleared }}
}

// Overdue leaves out timers that are held.
func (r heldReader) Overdue(ctx context.Context, tenant timer.TenantID, now time.Time) (timer.Overdue, error) {
	o, err := r.Reader.Overdue(ctx, tenant, now)
	if err != nil || o.Timers == 0 {
		return o, err
	}
	h, err := r.countHeld(ctx, tenant, now)
	since := h.behind(o.Oldest)
	if tenant == "" && since.After(o.Oldest) && now.Sub(since) < time.Second { // all other timers have fired just now
		return timer.Overdue{}, err
	}
	if o.Timers -= h.paused + h.limited; o.Timers <= 0 {
		return timer.Overdue{}, err
	}
	o.Oldest = since
	return o, err
}

// Stats says how many timers that are held are due, and leaves them out of the earliest due
// time.
func (r heldReader) Stats(ctx context.Context, tenant timer.TenantID) (timer.Stats, error) {
	s, err := r.Reader.Stats(ctx, tenant)
	if err != nil {
		return s, err
	}
	h, err := r.countHeld(ctx, tenant, r.clock.Now())
	s.Paused, s.Held, s.NextDue = h.paused, h.limited, h.behind(s.NextDue)
	return s, err
}

// heldCounts count the timers that are due but held.
type heldCounts struct {
	paused, limited int64
	cleared         time.Time // when all other timers that were due had fired; zero if none is held
}

// countHeld counts the timers of a tenant that are due but held, or of all, up to [maxHeld] tenants.
func (r heldReader) countHeld(ctx context.Context, tenant timer.TenantID, now time.Time) (h heldCounts, err error) {
	pauses, err := r.Firing(ctx, now)
	if err != nil {
		return h, err
	}
	into := make(map[timer.TenantID]*int64) // where the timers of a tenant count
	for of := range r.limits.Held() {
		into[of] = &h.limited
	}
	for of := range pauses {
		into[of] = &h.paused
	}
	if len(into) > 0 {
		h.cleared = r.cleared()
	}
	if pauses.Of(tenant, now).Paused() { // all that was asked for
		into = map[timer.TenantID]*int64{tenant: &h.paused}
	}
	counted := 0
	for of, sum := range into {
		if tenant != "" && of != tenant || counted == maxHeld {
			continue
		}
		counted++
		o, err := r.Reader.Overdue(ctx, of, now)
		if err != nil {
			return h, err
		}
		*sum += o.Timers
	}
	return h, nil
}

// behind returns since when a timer is due that may fire: one that is due for longer is held.
func (h heldCounts) behind(due time.Time) time.Time {
	if !due.IsZero() && due.Before(h.cleared) {
		return h.cleared
	}
	return due
}
