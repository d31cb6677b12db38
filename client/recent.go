package client

import (
	"context"
	"sync"
)

// recent are the latest ids that were handled, and those that are being handled.
type recent struct {
	most int // ids in each of the maps; none are kept if it is negative

	mu          sync.Mutex
	now, before map[string]bool
	running     map[string]chan struct{} // closed when the handler has returned
}

func newRecent(most int) *recent {
	return &recent{most: most, now: make(map[string]bool), running: make(map[string]chan struct{})}
}

// once calls handle, unless it returned nil for this id before. While it runs for the
// same id, once waits: its message must not be acked if that fails.
func (r *recent) once(ctx context.Context, id string, handle func(ctx context.Context) error) error {
	if r.most < 0 {
		return handle(ctx)
	}
	for {
		done, running := r.begin(id)
		switch {
		case running == nil && done == nil:
			return nil
		case running == nil:
			handled := false
			defer func() { r.end(id, done, handled) }() // also after a panic
			err := handle(ctx)
			handled = err == nil
			return err
		}
		select {
		case <-running:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// begin returns done if the caller is to handle the id, running if another one does,
// nothing if it was handled.
func (r *recent) begin(id string) (done, running chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now[id] || r.before[id] {
		return nil, nil
	}
	if running, ok := r.running[id]; ok {
		return nil, running
	}
	done = make(chan struct{})
	r.running[id] = done
	return done, nil
}

func (r *recent) end(id string, done chan struct{}, handled bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, id)
	close(done)
	if !handled {
		return
	}
	if len(r.now) >= r.most {
		r.now, r.before = make(map[string]bool), r.now
	}
	r.now[id] = true
}
