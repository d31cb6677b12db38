package postgres

import "sync"

// Working counts running calls. Unlike the read side of a sync.RWMutex it lets a call begin
// inside another while Close waits for the end of all, because a function of the host in
// [Store.Transact] may use the store.
type working struct {
	mu    sync.Mutex
	calls int
	none  chan struct{} // closed when no call is running; nil if no Close waits
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

// wait returns when no call is running.
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
