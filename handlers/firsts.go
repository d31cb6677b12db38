package handlers

import "sync"

// maxFirsts bounds what firsts keeps: texts come from outside.
const maxFirsts = 100

// A firsts knows texts. The zero value knows none.
type firsts struct {
	mu    sync.Mutex
	known map[string]bool
}

// add reports whether a text is new, and knows it from now on. When it knows many,
// none is new any more.
func (f *firsts) add(text string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known[text] || len(f.known) == maxFirsts {
		return false
	}
	if f.known == nil {
		f.known = make(map[string]bool)
	}
	f.known[text] = true
	return true
}
