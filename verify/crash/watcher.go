package crash

import (
	"bytes"
	"io"
	"sync"
)

// A watcher passes on the text that it is given, and finds the first line with a
// given prefix.
type watcher struct {
	out   io.Writer
	line  string
	found func() // called once

	mu   sync.Mutex
	rest []byte // of a line that is not complete
	done bool
}

// Write writes to out.
func (w *watcher) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for text := p; !w.done; {
		before, after, complete := bytes.Cut(text, []byte("\n"))
		w.rest = append(w.rest, before...)
		if !complete {
			break
		}
		if bytes.HasPrefix(w.rest, []byte(w.line)) {
			w.done = true
			w.found()
		}
		w.rest, text = w.rest[:0], after
	}
	return w.out.Write(p)
}
