package digest

import "sync"

// maxFirsts bounds how many values a Firsts remembers, since they come from outside.
const maxFirsts = 100

// A Firsts remembers values, so that each is logged once. The zero value is ready to use. It is
// safe for concurrent use.
type Firsts[T comparable] struct {
	mu    sync.Mutex
	known map[T]bool
}

// Add remembers a value, and reports whether it is new. After a hundred values no value is new
// any more.
func (f *Firsts[T]) Add(value T) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known[value] || len(f.known) == maxFirsts {
		return false
	}
	if f.known == nil {
		f.known = make(map[T]bool)
	}
	f.known[value] = true
	return true
}
