package rabbitmq

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// A flow stops reading from a connection while the messages that have come and were not
// handled take too much memory. The prefetch limits only their number.
type flow struct {
	holding context.Context // ends when the flow no longer holds anything back
	open    context.CancelFunc
	bytes   *semaphore.Weighted
	counted chan int64   // bytes of each message that has come and was not handled
	came    atomic.Int64 // messages that have come
}

// maxHeld is the most bytes of headers and bodies in memory at which another message is
// read.
const maxHeld = 64 << 20

func newFlow() *flow {
	f := &flow{bytes: semaphore.NewWeighted(maxHeld), counted: make(chan int64, prefetch)}
	f.holding, f.open = context.WithCancel(context.Background())
	return f
}

// add counts a message by its header and the body that is going to be read. It waits
// until there is memory for both.
func (f *flow) add(header int64, body uint64) {
	f.came.Add(1)
	bytes := min(header+int64(min(body, maxHeld)), maxHeld)
	if f.bytes.Acquire(f.holding, bytes) == nil {
		f.counted <- bytes
	}
}

// release ends the count of a message that is handled. In the end each message is released
// once, so that it does not matter which of the counts it ends. A nil flow counts nothing.
func (f *flow) release() {
	if f == nil {
		return
	}
	select {
	case bytes := <-f.counted:
		f.bytes.Release(bytes)
	default: // the message came when nothing was held back
	}
}
