package poller

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

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
