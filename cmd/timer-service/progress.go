package main

import (
	"fmt"
	"io"
	"time"
)

// These are the intervals between updates: on one line of a terminal, and as lines of a log.
const (
	terminalInterval = 100 * time.Millisecond
	logInterval      = 5 * time.Second
)

// A progress shows on stderr how much of a long task is done. A nil progress shows nothing.
type progress struct {
	w        io.Writer
	terminal bool
	what     string
	now      func() time.Time
	began    time.Time
	shown    time.Time
	n        int
}

// newProgress returns a progress of a task that begins now.
func newProgress(e *env, what string) *progress {
	now := e.now()
	return &progress{w: e.stderr, terminal: isTerminal(e.stderr), what: what, now: e.now, began: now, shown: now}
}

// add adds n to the count, and shows it if the interval is over.
func (p *progress) add(n int) {
	if p == nil {
		return
	}
	p.n += n
	now, interval := p.now(), logInterval
	if p.terminal {
		interval = terminalInterval
	}
	if now.Sub(p.shown) < interval {
		return
	}
	p.shown = now
	line := fmt.Sprintf("%d %s, %.0f/s", p.n, p.what, float64(p.n)/now.Sub(p.began).Seconds())
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K"+line)
		return
	}
	fmt.Fprintln(p.w, line)
}

// addRows is add for work in stages; a new stage counts from 0.
func (p *progress) addRows(stage string, n int) {
	if what := "timers " + stage; what != p.what {
		p.clear()
		now := p.now()
		p.what, p.n, p.began, p.shown = what, 0, now, now
	}
	p.add(n)
}

// clear removes the progress from a terminal, before other output.
func (p *progress) clear() {
	if p != nil && p.terminal && p.shown.After(p.began) {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
