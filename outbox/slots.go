package outbox

import (
	"slices"
	"sync"
	"time"
)

// Slots limit how many handlers are at work at once. One that becomes free goes to the
// destination that holds the fewest of those that wait, so that one whose handlers are
// slow delays no other by more than it takes until one of them ends.
type slots struct {
	mu      sync.Mutex
	free    int
	held    map[string]int             // by destination
	waiting map[string][]chan struct{} // calls by destination, the oldest first
	turns   []string                   // destinations that wait, in turn
	queued  int                        // calls that wait
	left    time.Time                  // when one has left that had waited long
}

func newSlots(n int) *slots {
	return &slots{free: n, held: make(map[string]int), waiting: make(map[string][]chan struct{})}
}

// enter returns what is closed when a call for a destination has a slot.
func (s *slots) enter(destination string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	granted := make(chan struct{})
	if s.free > 0 { // so none waits
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

// leave gives up a call that waits, if its destination has more than so many that do, or
// all destinations have more than their share. It returns false if it goes on waiting, or
// has a slot.
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

// wait sets the calls of a destination that wait. The lock must be held.
func (s *slots) wait(destination string, calls []chan struct{}) {
	if len(calls) > 0 {
		s.waiting[destination] = calls
		return
	}
	delete(s.waiting, destination)
	s.turns = slices.DeleteFunc(s.turns, func(d string) bool { return d == destination })
}

// slow reports whether calls have left a moment ago, and so many still wait.
func (s *slots) slow(now time.Time, share int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queued >= share && now.Sub(s.left).Abs() < patience
}

// waits returns how many calls for a destination wait.
func (s *slots) waits(destination string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting[destination])
}
