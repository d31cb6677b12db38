package poller

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

const (
	apartFor  = 5 * time.Second // how long a tenant is skipped whose timers can't be marked
	apartMost = 10              // failures without a success, after which the database is at fault
)

// Apart holds the tenants that are skipped because the database refuses to mark their timers,
// and the reason.
type apart struct {
	until map[timer.TenantID]time.Time
	err   error // of the last of these tenants
}

// has reports whether a tenant is skipped.
func (a *apart) has(tenant timer.TenantID, now time.Time) bool { return now.Before(a.until[tenant]) }

// why returns the error of the skipped tenants, or nil if there are none.
func (a *apart) why(now time.Time) error {
	for tenant, until := range a.until {
		if !now.Before(until.Add(apartFor)) { // the tenant had its turn since
			delete(a.until, tenant)
		}
	}
	if len(a.until) == 0 {
		return nil
	}
	return a.err
}

// allow returns how many timers tenants may fire now: only one tenant if it is named, or all
// that are not skipped. It sets paused if one of them is paused and has timers due.
func (p *Poller) allow(now time.Time, only timer.TenantID, paused *bool) timer.Allowance {
	var quota timer.Allowance
	if p.opt.Quotas != nil {
		quota = p.opt.Quotas.Allowance(now)
	}
	pauses := p.pausing.get()
	if only == "" && len(p.apart.until) == 0 && len(pauses) == 0 {
		return quota
	}
	return func(tenant timer.TenantID) int {
		switch {
		case only != "" && tenant != only, only == "" && p.apart.has(tenant, now):
			return 0
		case pauses.Of(tenant, now).Paused():
			*paused = true
			return 0
		case quota != nil:
			return quota(tenant)
		}
		return p.opt.Batch
	}
}

// fireApart fires the due timers of one tenant after the other, after a batch of all tenants
// has failed. So a row that the database refuses to change delays no other tenant. Tenants
// that fail are skipped for a while. If the failure is not about a tenant, fireApart returns
// the error of the batch.
func (p *Poller) fireApart(ctx context.Context, failed error) (all firing, err error) {
	now := p.now()
	due := make(map[timer.TenantID]bool)
	err = p.store.Update(ctx, func(tx timer.Tx) error {
		_, err := tx.Reach(ctx, now, p.opt.Batch, func(tenant timer.TenantID) int {
			due[tenant] = !p.apart.has(tenant, now)
			return 0
		})
		return err
	})
	if err != nil {
		return firing{}, failed
	}
	all.now = now
	refused := make(map[timer.TenantID]error)
	for tenant, is := range due {
		if !is {
			continue
		}
		one, err := p.fire(ctx, tenant)
		switch {
		case err == nil:
			all.fired += one.fired
			all.paused = all.paused || one.paused
			if all.again.IsZero() || !one.again.IsZero() && one.again.Before(all.again) {
				all.again = one.again
			}
		case all.fired == 0 && len(refused) == apartMost:
			return firing{}, failed
		default:
			refused[tenant] = err
		}
	}
	for tenant, err := range refused {
		p.apart.until[tenant] = now.Add(apartFor)
		p.apart.err = fmt.Errorf("timers of tenant %s: %w", tenant, err)
		p.log.ErrorContext(ctx, "timers of a tenant can't be marked, will retry", "tenant_id", tenant, "error", err, "retry_in", apartFor)
	}
	return all, nil
}

const (
	pausedInterval = time.Second            // between two polls while a pause holds back due timers
	pauseAge       = 500 * time.Millisecond // greatest age of the pauses that were read
)

// A pausing knows whether people have paused firing, of all tenants or of some. The pauses
// are in the store, for all instances. They are not read with each poll, because there may be
// many polls a second. So reading them costs two reads a second at most, and none while the
// poller sleeps.
type pausing struct {
	log  *slog.Logger
	read func(context.Context, time.Time) (timer.Pauses, error)

	mu    sync.Mutex
	known timer.Pauses
	at    time.Duration // when the pauses were read; they are stale before the first read
	fresh bool
}

// refresh reads the pauses, unless they were read within pauseAge.
func (p *pausing) refresh(ctx context.Context, now time.Time, elapsed time.Duration) (timer.Pauses, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fresh && elapsed-p.at < pauseAge {
		return p.known, nil
	}
	p.fresh, p.at = true, elapsed
	p.mu.Unlock()
	pauses, err := p.read(ctx, now)
	p.mu.Lock()
	if err != nil {
		p.fresh = false
		return p.known, err
	}
	p.tell(ctx, pauses)
	p.known = pauses
	return pauses, nil
}

// tell logs changes of the pauses.
func (p *pausing) tell(ctx context.Context, pauses timer.Pauses) {
	of := func(pause timer.Pause, attrs ...any) []any {
		if pause.TenantID != "" {
			attrs = append(attrs, "tenant_id", pause.TenantID)
		}
		if !pause.Until.IsZero() {
			attrs = append(attrs, "until", pause.Until)
		}
		return attrs
	}
	for tenant, pause := range pauses {
		if pause != p.known[tenant] {
			p.log.WarnContext(ctx, "firing is paused", of(pause, "since", pause.Since, "by", pause.By)...)
		}
	}
	for tenant, before := range p.known {
		if !pauses[tenant].Paused() {
			p.log.InfoContext(ctx, "firing is resumed", of(before, "paused_since", before.Since)...)
		}
	}
}

// get returns the pauses of the last read.
func (p *pausing) get() timer.Pauses {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known
}

// forget makes the next refresh read the pauses.
func (p *pausing) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fresh = false
}

// again returns when to poll again while a pause holds back due timers: in a second, or when
// the first pause ends.
func (p *pausing) again(now time.Time, interval time.Duration) time.Time {
	at := now.Add(min(pausedInterval, interval))
	for _, pause := range p.get() {
		if pause.Until.After(now) && pause.Until.Before(at) {
			at = pause.Until
		}
	}
	return at
}

// paused returns when to poll again if firing is paused for all tenants, even if timers are
// scheduled meanwhile. If it is not, it returns the zero value.
func (p *Poller) paused(ctx context.Context, now time.Time) (wake, error) {
	pauses, err := p.pausing.refresh(ctx, now, p.opt.Elapsed())
	if err != nil || !pauses.Of("", now).Paused() {
		return wake{}, err
	}
	p.cleared = now
	again := p.pausing.again(now, p.opt.Interval)
	return wake{at: again, earliest: again}, nil
}

// Refresh makes the poller read at once, instead of within a second, whether firing is
// paused. Call it after this instance has changed a pause. A batch that is firing meanwhile
// is finished. Refresh never blocks.
func (p *Poller) Refresh() {
	p.pausing.forget()
	p.gate.end()
}
