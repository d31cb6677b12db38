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
	w            io.Writer
	stage        string // of the task, such as "exported"
	n            int    // what has completed the stage
	began, shown time.Time
}

// add adds n to the count of a stage, and shows it if the interval is over. A new stage counts
// from 0. It is a [store.Progress].
func (p *progress) add(stage string, n int) {
	now := time.Now()
	if stage != p.stage {
		*p = progress{w: p.w, stage: stage, began: now, shown: now}
	}
	p.n += n
	if now.Sub(p.shown) >= progressInterval {
		p.shown = now
		fmt.Fprintf(p.w, "%d %s, %.0f/s\n", p.n, stage, float64(p.n)/now.Sub(p.began).Seconds())
	}
}
