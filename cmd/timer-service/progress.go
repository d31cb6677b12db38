package main

import (
	"fmt"
	"io"
	"time"
)

// progressInterval is the time between two lines of a progress.
const progressInterval = 5 * time.Second

// A progress says on stderr how much of a long task is done.
type progress struct {
	w     io.Writer
	what  string
	now   func() time.Time
	began time.Time
	shown time.Time
	n     int
}

// newProgress returns a progress of a task that begins now.
func newProgress(e *env, what string) *progress {
	now := e.now()
	return &progress{w: e.stderr, what: what, now: e.now, began: now, shown: now}
}

// add adds n to the count, and shows it if the interval is over.
func (p *progress) add(n int) {
	p.n += n
	if now := p.now(); now.Sub(p.shown) >= progressInterval {
		p.shown = now
		fmt.Fprintf(p.w, "%d %s, %.0f/s\n", p.n, p.what, float64(p.n)/now.Sub(p.began).Seconds())
	}
}

// stages returns a function that is called with work in stages. A new stage counts from 0.
func stages(e *env) func(stage string, n int) {
	p := newProgress(e, "")
	return func(stage string, n int) {
		if what := "timers " + stage; what != p.what {
			p = newProgress(e, what)
		}
		p.add(n)
	}
}
