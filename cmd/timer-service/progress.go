package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// How often progress is shown: on one line of a terminal, and on lines of a log.
const (
	progressBlink = 100 * time.Millisecond
	progressPause = 5 * time.Second
)

// A progress tells people on stderr how far long work is. A nil progress tells
// nothing.
type progress struct {
	w        io.Writer
	terminal bool
	what     string
	now      func() time.Time
	began    time.Time
	shown    time.Time
	n        int
}

// newProgress returns a progress of work that begins now.
func newProgress(e *env, what string) *progress {
	now := e.now()
	return &progress{w: e.stderr, terminal: isTerminal(e.stderr), what: what, now: e.now, began: now, shown: now}
}

// add notes that n more are done, and shows it if it is time.
func (p *progress) add(n int) {
	if p == nil {
		return
	}
	p.n += n
	now, pause := p.now(), progressPause
	if p.terminal {
		pause = progressBlink
	}
	if now.Sub(p.shown) < pause {
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

// clear takes the progress off a terminal, to make room for something else.
func (p *progress) clear() {
	if p != nil && p.terminal && p.shown.After(p.began) {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// isTerminal reports whether somebody may be looking at what is written.
func isTerminal(w io.Writer) bool {
	if c, ok := w.(*checked); ok {
		w = c.w
	}
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
