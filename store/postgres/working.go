package postgres

import "sync"

// Working counts running calls. Unlike the read side of a sync.RWMutex it lets a call begin
// inside another while Close waits for the end of all, because a function of the host in
// [Store.Transact] may use the store.
type working struct {
	mu    sync.Mutex
	ended *sync.Cond // a call has ended
	calls int
}

func newWorking() *working {
	w := new(working)
	w.ended = sync.NewCond(&w.mu)
	return w
}

func (w *working) begin() { w.add(1) }

func (w *working) end() { w.add(-1) }

func (w *working) add(calls int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls += calls
	w.ended.Broadcast()
}

// wait returns when no call is running.
func (w *working) wait() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.calls > 0 {
		w.ended.Wait()
	}
}
