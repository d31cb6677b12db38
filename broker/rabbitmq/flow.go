package rabbitmq

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// A flow holds deliveries of a connection back in the network while the deliveries that
// have come are too large: the server counts messages, and the library keeps all of them.
type flow struct {
	holding context.Context // ends when nothing is held back any more
	open    context.CancelFunc
	bytes   *semaphore.Weighted
	waiting chan int64   // bytes of each message that has come and was not delivered yet, in their order
	came    atomic.Int64 // messages that have come
}

// maxHeld is how many bytes of headers and bodies are in memory before the next
// is read.
const maxHeld = 32 << 20

func newFlow() *flow {
	f := &flow{bytes: semaphore.NewWeighted(maxHeld), waiting: make(chan int64, prefetch)}
	f.holding, f.open = context.WithCancel(context.Background())
	return f
}

// add counts a message that comes, with its header and a body that is going to be
// read. It waits until both may be in memory.
func (f *flow) add(header int64, body uint64) {
	f.came.Add(1)
	bytes := min(header+int64(min(body, maxHeld)), maxHeld)
	if f.bytes.Acquire(f.holding, bytes) == nil {
		f.waiting <- bytes
	}
}

// taken counts the oldest message no more.
func (f *flow) taken() {
	select {
	case bytes := <-f.waiting:
		f.bytes.Release(bytes)
	default: // it came when nothing was held back
	}
}
