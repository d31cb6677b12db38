package poller

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

const (
	pausedInterval = time.Second            // between two polls while firing is paused of all, or of a tenant with due timers
	pauseAge       = 500 * time.Millisecond // how old may be what is known of pauses
)

// A pausing knows whether people have paused firing, of all tenants or of some. That is
// kept in the store, for all instances; reading it is apart from the polls, which may be
// many a second: so it costs two reads a second at most, and none while the poller sleeps.
type pausing struct {
	log  *slog.Logger
	read func(context.Context, time.Time) (timer.Pauses, error)

	mu    sync.Mutex
	known timer.Pauses
	at    time.Duration // when it was read; before the first time it is not fresh
	fresh bool
}

// refresh reads the pauses, unless they are known as of half a second ago at most.
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

// tell logs what has changed.
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

// get returns the pauses as they were read last.
func (p *pausing) get() timer.Pauses {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known
}

// forget has them read anew.
func (p *pausing) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fresh = false
}

// again returns when to poll again while a pause holds back what is due: in a second, or
// when the first pause ends.
func (p *pausing) again(now time.Time, interval time.Duration) time.Time {
	at := now.Add(min(pausedInterval, interval))
	for _, pause := range p.get() {
		if pause.Until.After(now) && pause.Until.Before(at) {
			at = pause.Until
		}
	}
	return at
}

// paused returns when to poll again if firing is paused of all tenants, whatever is scheduled
// meanwhile; else the zero value.
func (p *Poller) paused(ctx context.Context, now time.Time) (wake, error) {
	pauses, err := p.pausing.refresh(ctx, now, p.opt.Elapsed())
	if err != nil || !pauses.Of("", now).Paused() {
		return wake{}, err
	}
	p.cleared = now
	again := p.pausing.again(now, p.opt.Interval)
	return wake{at: again, earliest: again}, nil
}

// Refresh has the poller find out at once whether firing is paused, instead of within
// a second: after a pause was changed by this instance. A batch that is firing
// meanwhile is finished. It never blocks.
func (p *Poller) Refresh() {
	p.pausing.forget()
	p.gate.end()
}
