package rabbitmq

import "sync"

// A valve holds deliveries back in the network while those that have come are
// too large: the server counts messages, and the library keeps all of them.
type valve struct {
	mu   sync.Mutex
	room sync.Cond
	held int64 // bytes of bodies read, and not taken yet
	over bool
}

// maxHeld is how many bytes of bodies wait in memory before the next is read.
const maxHeld = 32 << 20

func newValve() *valve {
	v := new(valve)
	v.room.L = &v.mu
	return v
}

// add notes a body that comes.
func (v *valve) add(bytes int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.held += bytes
}

// taken notes that a body does not wait any more.
func (v *valve) taken(bytes int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.held -= int64(bytes)
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
