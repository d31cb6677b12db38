package admin

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/internal/symptom"
)

// interval is how long a [Monitor] pauses between two rounds of checks. A round takes at most
// a second, so a failure is seen within two.
const interval = 800 * time.Millisecond

// dead is how old the last round may be before the process counts as dead.
const dead = 30 * time.Second

// stale is how old the last round may be before the process counts as not ready: either the
// checks hang, or the process was stopped.
const stale = 3 * time.Second

// A Part is the state of one part of the service.
type Part struct {
	app.Check
	Since time.Time // since when all checks have returned the same
}

// A Health is the result of the last checks of a [Monitor].
type Health struct {
	At    time.Time // when the last round of checks ended; zero before the first
	Parts []Part
}

// Ready reports whether commands are handled and timers fire: no part is red.
func (h Health) Ready() bool {
	return !h.At.IsZero() && !slices.ContainsFunc(h.Parts, func(p Part) bool { return p.Red })
}

// A Monitor repeats checks, and logs changes. Make one with [NewMonitor]. Its methods are
// safe for concurrent use.
type Monitor struct {
	checks func(context.Context) []app.Check
	log    *slog.Logger
	asked  bool // it checks on request, since Run does not run

	asking chan struct{} // full during a check: only one runs at a time

	mu    sync.Mutex
	last  Health
	began time.Time
}

// NewMonitor returns a Monitor of checks such as [app.App.Checks]. It starts nothing: call
// [Monitor.Run].
func NewMonitor(checks func(context.Context) []app.Check, log *slog.Logger) *Monitor {
	return &Monitor{checks: checks, log: log, asking: make(chan struct{}, 1), began: time.Now()}
}

// Run checks until ctx is done, and returns nil.
func (m *Monitor) Run(ctx context.Context) error {
	for {
		m.Refresh(ctx)
		if !pause.For(ctx, interval) {
			return nil
		}
	}
}

// Refresh checks now, one caller at a time, and returns the result within a second after the
// caller's turn has come.
func (m *Monitor) Refresh(ctx context.Context) Health {
	m.check(ctx, 0)
	return m.Health()
}

// Health returns the result of the last checks.
func (m *Monitor) Health() Health {
	if m.asked {
		m.check(context.Background(), interval)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.last
	h.Parts = slices.Clone(h.Parts)
	if old := time.Since(h.At); !h.At.IsZero() && old > stale {
		s := symptom.Unchecked
		h.Parts = append(h.Parts, Part{app.Check{Part: s.Part, Reason: s.Seen(old.Round(time.Millisecond)), Advice: s.Advice(), Red: s.Red}, h.At})
	}
	return h
}

// Checks returns the last checks.
func (m *Monitor) Checks() []app.Check {
	return all(m.Health().Parts, func(p Part) app.Check { return p.Check })
}

// Alive reports whether the process works: the checks run, whatever their results.
func (m *Monitor) Alive() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.asked { // a process that answers is alive
		return true
	}
	return time.Since(cmp.Or(m.last.At, m.began)) < dead
}

// check runs the checks, unless the last ones are younger than age.
func (m *Monitor) check(ctx context.Context, age time.Duration) {
	m.asking <- struct{}{}
	defer func() { <-m.asking }()
	m.mu.Lock()
	last := m.last.At
	m.mu.Unlock()
	if time.Since(last) < age {
		return
	}
	if checks := m.checks(ctx); ctx.Err() == nil {
		m.observe(ctx, checks, time.Now())
	}
}

// observe records a round of checks, and logs parts that turned red or green.
func (m *Monitor) observe(ctx context.Context, checks []app.Check, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	first := m.last.At.IsZero()
	before := make(map[string]Part, len(m.last.Parts))
	for _, p := range m.last.Parts {
		before[p.Part] = p
	}
	parts := make([]Part, len(checks))
	for i, c := range checks {
		was, known := before[c.Part]
		parts[i] = Part{Check: c, Since: now}
		if known && was.Red == c.Red && (was.Reason == "") == (c.Reason == "") {
			parts[i].Since = was.Since
		}
		switch {
		case c.Red && !was.Red && !first:
			m.log.WarnContext(ctx, "not ready", "part", c.Part, "reason", c.Reason, "advice", c.Advice)
		case !c.Red && was.Red:
			m.log.InfoContext(ctx, "ready again", "part", c.Part, "after", now.Sub(was.Since).Round(time.Millisecond))
		}
	}
	m.last = Health{At: now, Parts: parts}
}
