package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/event-service-agent/timer-service/admin"
)

// These are the limits of a [queue].
const (
	maxQueued    = 8192            // writes that wait, of a line each
	flushTimeout = 1 * time.Second // how long the end, and an operator, wait for the reader
)

// A queue is a writer that never waits for its reader, and does not fail when the reader is
// gone, because the service must not block or end because of its log. Lines wait in memory.
// Lines that exceed the limit are dropped and counted.
type queue struct {
	w       io.Writer
	log     *slog.Logger // where lost lines are reported, once lines flow again; may be nil
	waiting chan queuedWrite
	lost    atomic.Int64 // how many lines were dropped
}

// A queuedWrite is text to be written, or a channel to be closed when all before it is.
type queuedWrite struct {
	lines   []byte
	written chan struct{}
}

// newQueue returns a queue whose goroutine ends with the process.
func newQueue(w io.Writer) *queue {
	q := &queue{w: w, waiting: make(chan queuedWrite, maxQueued)}
	go q.write()
	return q
}

// Write queues lines, or drops them if too many wait.
func (q *queue) Write(lines []byte) (int, error) {
	select {
	case q.waiting <- queuedWrite{lines: bytes.Clone(lines)}:
	default:
		q.lost.Add(1)
	}
	return len(lines), nil
}

func (q *queue) write() {
	for next := range q.waiting {
		if next.written != nil {
			close(next.written)
			continue
		}
		if _, err := q.w.Write(next.lines); err != nil {
			q.lost.Add(1)
		} else if q.log != nil && q.lost.Load() > 0 && len(q.waiting) < maxQueued/2 { // there is room to say so
			q.log.Warn("log lines are missing here: they were not read in time", "lines", q.lost.Swap(0))
		}
	}
}

// flush waits until all is written, at most for flushTimeout.
func (q *queue) flush() {
	timeout, written := time.After(flushTimeout), make(chan struct{})
	select {
	case q.waiting <- queuedWrite{written: written}:
	case <-timeout:
		return
	}
	select {
	case <-written:
	case <-timeout:
	}
}

// logger returns a logger for lines that a handler writes into the queue.
func (q *queue) logger(lines slog.Handler) *slog.Logger {
	q.log = slog.New(queueHandler{lines, q})
	return q.log
}

// A queueHandler logs into a queue.
type queueHandler struct {
	slog.Handler
	q *queue
}

// Handle queues a line. The line about an operator's action is written before the operator
// gets the answer.
func (h queueHandler) Handle(ctx context.Context, line slog.Record) error {
	err := h.Handler.Handle(ctx, line)
	if line.Message == admin.AuditMessage {
		h.q.flush()
	}
	return err
}

// WithAttrs returns a handler whose lines have attributes.
func (h queueHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return queueHandler{h.Handler.WithAttrs(attrs), h.q}
}

// WithGroup returns a handler whose attributes are in a group.
func (h queueHandler) WithGroup(name string) slog.Handler {
	return queueHandler{h.Handler.WithGroup(name), h.q}
}
