package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/admin"
)

// These are the limits of a [queue].
const (
	maxQueued    = 1 << 20         // bytes that wait
	flushTimeout = 1 * time.Second // how long the end, and an operator, wait for the reader
)

// A queue is a writer that never waits for its reader, and does not fail when the reader is
// gone, because the service must not block or end because of its log. Lines wait in memory.
// Lines that exceed the limit are dropped and counted.
type queue struct {
	w   io.Writer
	log *slog.Logger // where lost lines are reported, once lines flow again; may be nil

	mu      sync.Mutex
	waiting []byte
	written chan struct{} // closed when all is written; nil while nothing waits
	lost    int           // how many lines were dropped
}

// Write queues lines, or drops them if too many bytes wait.
func (q *queue) Write(lines []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting)+len(lines) > maxQueued {
		q.lost += bytes.Count(lines, []byte("\n"))
		return len(lines), nil
	}
	q.waiting = append(q.waiting, lines...)
	if q.written == nil {
		q.written = make(chan struct{})
		go q.write() // ends when the reader is fast enough, or with the process
	}
	return len(lines), nil
}

// write writes until nothing waits.
func (q *queue) write() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) > 0 {
		lines := q.waiting
		q.waiting = nil
		q.mu.Unlock()
		n, err := q.w.Write(lines)
		q.mu.Lock()
		if err != nil {
			q.lost += bytes.Count(lines[n:], []byte("\n"))
			continue
		}
		if lost := q.lost; lost > 0 && q.log != nil && len(q.waiting) < maxQueued/2 { // there is room to say so
			q.lost = 0
			q.mu.Unlock()
			q.log.Warn("log lines are missing here: they were not read in time", "lines", lost)
			q.mu.Lock()
		}
	}
	close(q.written)
	q.written = nil
}

// flush waits until all is written, at most for flushTimeout.
func (q *queue) flush() {
	q.mu.Lock()
	written := q.written
	q.mu.Unlock()
	if written == nil {
		return
	}
	select {
	case <-written:
	case <-time.After(flushTimeout):
	}
}

// logger returns a logger for lines that a handler writes into the queue.
func (q *queue) logger(lines slog.Handler) *slog.Logger {
	q.log = slog.New(queued{lines, q})
	return q.log
}

// A queued handler logs into a queue.
type queued struct {
	slog.Handler
	q *queue
}

// Handle queues a line. The line about an operator's action is written before the operator
// gets the answer.
func (h queued) Handle(ctx context.Context, line slog.Record) error {
	err := h.Handler.Handle(ctx, line)
	if line.Message == admin.AuditMessage {
		h.q.flush()
	}
	return err
}

// WithAttrs returns a handler whose lines have attributes.
func (h queued) WithAttrs(attrs []slog.Attr) slog.Handler {
	return queued{h.Handler.WithAttrs(attrs), h.q}
}

// WithGroup returns a handler whose attributes are in a group.
func (h queued) WithGroup(name string) slog.Handler {
	return queued{h.Handler.WithGroup(name), h.q}
}
