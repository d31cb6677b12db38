package poller

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

const (
	pausedInterval = time.Second            // between two polls while firing is paused
	pauseAge       = 500 * time.Millisecond // how old may be what is known of a pause
)

// A pausing knows whether people have paused firing. That is kept in the store, for
// all instances; reading it is apart from the polls, which may be many a second: so
// it costs two reads a second at most, and none while the poller sleeps.
type pausing struct {
	log  *slog.Logger
	read func(context.Context) (timer.Pause, error)

	mu    sync.Mutex
	known timer.Pause
	at    time.Duration // when it was read; before the first time it is not fresh
	fresh bool
}

// now returns the pause, as it was half a second ago at most.
func (p *pausing) now(ctx context.Context, elapsed time.Duration) (timer.Pause, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fresh && elapsed-p.at < pauseAge {
		return p.known, nil
	}
	p.fresh, p.at = true, elapsed
	p.mu.Unlock()
	pause, err := p.read(ctx)
	p.mu.Lock()
	if err != nil {
		p.fresh = false
		return p.known, err
	}
	switch before := p.known; {
	case pause == before:
	case pause.Paused():
		p.log.WarnContext(ctx, "firing is paused until it is resumed", "since", pause.Since, "by", pause.By)
	default:
		p.log.InfoContext(ctx, "firing is resumed", "paused_since", before.Since)
	}
	p.known = pause
	return pause, nil
}

// get returns the pause as it was read last.
func (p *pausing) get() timer.Pause {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known
}

// forget has it read anew.
func (p *pausing) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fresh = false
}

// paused returns when to poll again if firing is paused, whatever is scheduled
// meanwhile; else the zero value.
func (p *Poller) paused(ctx context.Context, now time.Time) (wake, error) {
	pause, err := p.pausing.now(ctx, p.opt.Elapsed())
	if err != nil || !pause.Paused() {
		return wake{}, err
	}
	again := now.Add(min(pausedInterval, p.opt.Interval))
	return wake{at: again, earliest: again}, nil
}

// Refresh has the poller find out at once whether firing is paused, instead of within
// a second: after the pause was changed by this instance. A batch that is firing
// meanwhile is finished. It never blocks.
func (p *Poller) Refresh() {
	p.pausing.forget()
	p.gate.end()
}
