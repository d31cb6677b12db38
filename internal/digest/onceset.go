package digest

import "sync"

// maxOnce bounds how many values a OnceSet remembers, since they come from outside.
const maxOnce = 100

// A OnceSet remembers values, so that each is logged once. The zero value is ready to use. It is
// safe for concurrent use.
type OnceSet[T comparable] struct {
	mu    sync.Mutex
	known map[T]bool
}

// Add remembers a value, and reports whether it is new. After a hundred values no value is new
// any more.
func (f *OnceSet[T]) Add(value T) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known[value] || len(f.known) == maxOnce {
		return false
	}
	if f.known == nil {
		f.known = make(map[T]bool)
	}
	f.known[value] = true
	return true
}
