// Package logbuf keeps log lines, for tests that read them.
package logbuf

import (
	"bytes"
	"sync"
)

// A Buffer holds text. Many may write to it and read it at the same time. The
// zero value is empty and ready to use.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends; it never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns all of it.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Take returns all of it and empties the buffer.
func (b *Buffer) Take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.text.Reset()
	return b.text.String()
}
