package rabbitmq

import "sync"

// A valve holds deliveries back in the network while those that have come are
// too large: the server counts messages, and the library keeps all of them.
type valve struct {
	mu   sync.Mutex
	room sync.Cond
	held int64   // bytes of headers and bodies read, and not taken yet
	each []int64 // the same of each message, in their order
	over bool
}

// maxHeld is how many bytes of headers and bodies wait in memory before the next is read.
const maxHeld = 32 << 20

func newValve() *valve {
	v := new(valve)
	v.room.L = &v.mu
	return v
}

// add notes a message that comes.
func (v *valve) add(bytes int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.held += bytes
	v.each = append(v.each, bytes)
}

// taken notes that the oldest message does not wait any more.
func (v *valve) taken() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.each) == 0 { // the sieve let pass what it could not read
		return
	}
	v.held -= v.each[0]
	v.each = v.each[1:]
	v.room.Broadcast()
}

// wait waits until there is room.
func (v *valve) wait() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for v.held > maxHeld && !v.over {
		v.room.Wait()
	}
}

// open holds nothing back any more.
func (v *valve) open() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.over = true
	v.room.Broadcast()
}
