package postgres

import "sync"

// Working counts calls that are at work. Unlike with the read side of a lock one may
// begin inside another while a Close waits for the end of all: what a host does in
// [Store.Transact] may use the store.
type working struct {
	mu    sync.Mutex
	calls int
	none  chan struct{} // closed when there are none any more; nil if no Close waits
}

func (w *working) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
}

func (w *working) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls--; w.calls == 0 && w.none != nil {
		close(w.none)
		w.none = nil
	}
}

// wait returns when no call is at work.
func (w *working) wait() {
	w.mu.Lock()
	if w.calls == 0 {
		w.mu.Unlock()
		return
	}
	if w.none == nil {
		w.none = make(chan struct{})
	}
	none := w.none
	w.mu.Unlock()
	<-none
}
