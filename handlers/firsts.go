package handlers

import "sync"

// maxFirsts bounds how many texts a firsts remembers, since they come from outside.
const maxFirsts = 100

// A firsts remembers texts, so that each is logged once. The zero value is empty.
type firsts struct {
	mu    sync.Mutex
	known map[string]bool
}

// add remembers a text, and reports whether it is new. After maxFirsts texts no text is new
// any more.
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
