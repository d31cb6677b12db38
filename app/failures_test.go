package app_test

import (
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/internal/fault"
)

// failures decide which calls fail, and how. The zero value lets none fail.
type failures struct {
	seed    uint64
	oneIn   int        // one call in this many fails; 0: none does
	crashIn int        // the process crashes at one call in this many; 0: at none
	nth     int        // this call fails, from 1, in the way that follows; 0: none does
	kind    fault.Kind // of the failure of the nth call
	crash   bool       // at the nth call

	mu     sync.Mutex
	calls  map[string]uint64 // of each operation
	all    int               // calls
	doomed string            // the process crashes at the next call of this operation; empty: at none
	down   map[string]bool   // operations that fail all the time, without effect
	dead   bool              // every call fails and has no effect
}

// decide waits before a failure, as failures take time: what the process did
// before, such as an ack, gets out.
func (f *failures) decide(op string) fault.Kind {
	kind, crash := f.choose(op)
	if kind == fault.None {
		return kind
	}
	<-time.After(failing)
	if crash {
		f.die(true)
	}
	return kind
}

const failing = time.Millisecond // how long a failing call takes

func (f *failures) choose(op string) (kind fault.Kind, crash bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead {
		return fault.Before, false
	}
	if f.calls == nil {
		f.calls = make(map[string]uint64)
	}
	f.calls[op]++
	f.all++
	rng := drawn(f.seed, op, f.calls[op])
	switch {
	case f.all == f.nth:
		return f.kind, f.crash
	case f.doomed == op:
		f.doomed, crash = "", true
	case f.crashIn > 0 && rng.IntN(f.crashIn) == 0:
		crash = true
	case f.down[op]:
		return fault.Before, false
	case f.oneIn == 0 || rng.IntN(f.oneIn) != 0:
		return fault.None, false
	}
	return fault.Kind(1 + rng.IntN(2)), crash
}

func (f *failures) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.oneIn, f.crashIn, f.down = 0, 0, nil
}

// die makes every call of the process fail, or ends that.
func (f *failures) die(dead bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead, f.doomed = dead, ""
}

// doom makes the process crash at the next call of an operation.
func (f *failures) doom(op string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.doomed = op
}

func (f *failures) isDead() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dead
}

// storeOps are what fails while the store is down.
var storeOps = []string{"schedule", "cancel", "update", "next_due", "head", "delete", "purge", "fail", "park", "get", "counts"}

// outage makes operations fail until the next call of outage.
func (f *failures) outage(ops ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = make(map[string]bool)
	for _, op := range ops {
		f.down[op] = true
	}
}

func name(prefix string, n int) string { return prefix + strconv.Itoa(n) }

// drawn returns numbers that follow from a seed and from which call of an operation asks,
// whatever other operations were called meanwhile.
func drawn(seed uint64, op string, nth uint64) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(op)) // never fails
	return rand.New(rand.NewPCG(seed^h.Sum64(), nth))
}
