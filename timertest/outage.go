package timertest

import (
	"sync"
	"time"
)

// An outage is whether the broker is down.
type outage struct {
	mu    sync.Mutex
	n     int64         // how often it was
	until time.Time     // when the latest one ends
	up    chan struct{} // closed while the broker is up
	down  chan struct{} // closed while it is down
}

func newOutage() *outage {
	o := &outage{up: make(chan struct{}), down: make(chan struct{})}
	close(o.up)
	return o
}

// begin has the broker down for d from now on, or longer if it is already.
func (o *outage) begin(d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if until := time.Now().Add(d); until.After(o.until) {
		o.until = until
	}
	if !isClosed(o.down) {
		o.n++
		o.up = make(chan struct{})
		close(o.down)
	}
	time.AfterFunc(d, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if !time.Now().Before(o.until) {
			o.over()
		}
	})
}

// end has the broker up from now on.
func (o *outage) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.until = time.Time{}
	o.over()
}

// over notes that the broker is up. The caller holds mu.
func (o *outage) over() {
	if isClosed(o.down) {
		o.down = make(chan struct{})
		close(o.up)
	}
}

// changes returns channels that are closed when the broker is up, and when it is down.
func (o *outage) changes() (up, down <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.up, o.down
}

// away reports whether the broker is down.
func (o *outage) away() bool {
	_, down := o.changes()
	return isClosed(down)
}

// count returns how often the broker was down, or is.
func (o *outage) count() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.n
}
