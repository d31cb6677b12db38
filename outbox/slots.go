package outbox

import (
	"slices"
	"sync"
	"time"
)

// Slots limit how many handlers are at work at once. A slot that becomes free goes to the
// waiting destination that holds the fewest, so that a destination whose handlers are slow
// delays others only until one of its handlers ends.
type slots struct {
	mu      sync.Mutex
	free    int
	held    map[string]int             // slots in use, by destination
	waiting map[string][]chan struct{} // calls by destination, the oldest first
	turns   []string                   // destinations that wait, in turn
	queued  int                        // calls that wait
	left    time.Time                  // when a call gave up last, after a long wait
}

func newSlots(n int) *slots {
	return &slots{free: n, held: make(map[string]int), waiting: make(map[string][]chan struct{})}
}

// enter returns a channel that is closed when a call for a destination has a slot.
func (s *slots) enter(destination string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	granted := make(chan struct{})
	if s.free > 0 { // so no call waits
		s.free--
		s.held[destination]++
		close(granted)
		return granted
	}
	if len(s.waiting[destination]) == 0 {
		s.turns = append(s.turns, destination)
	}
	s.waiting[destination] = append(s.waiting[destination], granted)
	s.queued++
	return granted
}

// leave gives up a call that waits, if more than most calls of its destination wait, or more
// than share calls of all destinations. It returns false if the call goes on waiting, or has
// a slot.
func (s *slots) leave(now time.Time, destination string, call <-chan struct{}, most, share int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.waiting[destination]
	i := slices.IndexFunc(calls, func(c chan struct{}) bool { return c == call })
	if i < 0 || len(calls) <= most && s.queued <= share {
		return false
	}
	s.left = now
	s.queued--
	s.wait(destination, slices.Delete(calls, i, i+1))
	return true
}

// release frees a slot of a destination.
func (s *slots) release(destination string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	if s.held[destination]--; s.held[destination] == 0 {
		delete(s.held, destination)
	}
	if len(s.turns) == 0 {
		return
	}
	next := 0
	for i, d := range s.turns {
		if s.held[d] < s.held[s.turns[next]] {
			next = i
		}
		if s.held[s.turns[next]] == 0 {
			break
		}
	}
	d := s.turns[next]
	s.turns = append(slices.Delete(s.turns, next, next+1), d)
	s.free--
	s.held[d]++
	s.queued--
	close(s.waiting[d][0])
	s.wait(d, s.waiting[d][1:])
}

// wait sets which calls of a destination wait. The lock must be held.
func (s *slots) wait(destination string, calls []chan struct{}) {
	if len(calls) > 0 {
		s.waiting[destination] = calls
		return
	}
	delete(s.waiting, destination)
	s.turns = slices.DeleteFunc(s.turns, func(d string) bool { return d == destination })
}

// slow reports whether a call gave up a moment ago, and at least share calls still wait.
func (s *slots) slow(now time.Time, share int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queued >= share && now.Sub(s.left).Abs() < maxWait
}

// waits returns how many calls for a destination wait.
func (s *slots) waits(destination string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting[destination])
}
