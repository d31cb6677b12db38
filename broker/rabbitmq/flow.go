package rabbitmq

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// A flow stops reading from a connection while the messages that have come take too much
// memory. The prefetch limits only their number, and the library keeps all of them in
// memory.
type flow struct {
	holding context.Context // ends when nothing is to be held back any more
	open    context.CancelFunc
	bytes   *semaphore.Weighted
	waiting chan int64   // bytes of each message that came and was not taken yet, in order
	came    atomic.Int64 // messages that have come
}

// maxHeld is the most bytes of headers and bodies in memory at which another message is
// read.
const maxHeld = 32 << 20

func newFlow() *flow {
	f := &flow{bytes: semaphore.NewWeighted(maxHeld), waiting: make(chan int64, prefetch)}
	f.holding, f.open = context.WithCancel(context.Background())
	return f
}

// add counts a message by its header and the body that is going to be read. It waits
// until there is memory for both.
func (f *flow) add(header int64, body uint64) {
	f.came.Add(1)
	bytes := min(header+int64(min(body, maxHeld)), maxHeld)
	if f.bytes.Acquire(f.holding, bytes) == nil {
		f.waiting <- bytes
	}
}

// taken ends the count of the oldest message.
func (f *flow) taken() {
	select {
	case bytes := <-f.waiting:
		f.bytes.Release(bytes)
	default: // the message came when nothing was held back
	}
}
