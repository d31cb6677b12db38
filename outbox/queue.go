package outbox

import (
	"maps"
	"math"
	"slices"
	"sync"
	"time"
)

// maxWait is about how long calls wait for their turn while they keep rows from being read.
const maxWait = time.Second

// A queue has the calls of a handler: those at work, and a bounded number that wait. The next
// call is of the destination that has the fewest at work, so that a destination whose calls are
// slow delays others only until one of its calls ends.
type queue struct {
	bound int // calls that wait

	mu      sync.Mutex
	free    int                      // calls that may begin at once
	held    map[string]int           // calls at work, by destination
	begun   map[Place]handlerCall    // calls at work
	waiting map[string][]handlerCall // by destination, the oldest first
	turns   []string                 // destinations that wait, in turn
	queued  int                      // calls that wait
}

func newQueue(concurrency, bound int) *queue {
	return &queue{bound: bound, free: concurrency, held: make(map[string]int), begun: make(map[Place]handlerCall), waiting: make(map[string][]handlerCall)}
}

// vacancy returns how many calls may wait. Calls that have waited for long keep no rows from
// being read: further ones that find no vacancy are read again later.
func (q *queue) vacancy(now time.Time) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.queued >= q.bound {
		for _, calls := range q.waiting {
			if now.Sub(calls[0].since).Abs() >= maxWait {
				return math.MaxInt
			}
		}
	}
	return q.bound - q.queued
}

// enter reports whether a call begins at once, or waits until release returns it. In a full queue
// a call waits only if its destination has less than an equal share of it.
func (q *queue) enter(c handlerCall) (begins, waits bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	calls := q.waiting[c.destination]
	switch {
	case q.free > 0: // so no call waits
		q.free--
		q.begin(c)
		return true, false
	case q.queued >= q.bound && len(calls) >= max(q.bound/(len(q.turns)+1), 1):
		return false, false
	case len(calls) == 0:
		q.turns = append(q.turns, c.destination)
	}
	q.waiting[c.destination] = append(calls, c)
	q.queued++
	return false, true
}

// begin notes that a call is at work from now on.
func (q *queue) begin(c handlerCall) {
	q.held[c.destination]++
	q.begun[c.row.Place] = c
}

// atWork returns the calls at work.
func (q *queue) atWork() []handlerCall {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Collect(maps.Values(q.begun))
}

// release ends a call, and returns the next one if one waits, which begins now.
func (q *queue) release(now time.Time, ended handlerCall) (c handlerCall, waits bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.begun, ended.row.Place)
	if q.held[ended.destination]--; q.held[ended.destination] == 0 {
		delete(q.held, ended.destination)
	}
	if len(q.turns) == 0 {
		q.free++
		return handlerCall{}, false
	}
	next := 0
	for i, d := range q.turns {
		if q.held[d] < q.held[q.turns[next]] {
			next = i
		}
		if q.held[q.turns[next]] == 0 {
			break
		}
	}
	d := q.turns[next]
	calls := q.waiting[d]
	q.turns = slices.Delete(q.turns, next, next+1)
	if q.wait(d, calls[1:]); len(calls) > 1 {
		q.turns = append(q.turns, d)
	}
	q.queued--
	c = calls[0]
	c.since = now
	q.begin(c)
	return c, true
}

// leave returns the calls of a sender, which wait no more.
func (q *queue) leave(s *sender) (calls []handlerCall) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for d, waiting := range q.waiting {
		q.wait(d, slices.DeleteFunc(waiting, func(c handlerCall) bool {
			if c.sender == s {
				calls = append(calls, c)
			}
			return c.sender == s
		}))
	}
	q.turns = slices.DeleteFunc(q.turns, func(d string) bool { return len(q.waiting[d]) == 0 })
	q.queued -= len(calls)
	return calls
}

// wait sets which calls of a destination wait.
func (q *queue) wait(destination string, calls []handlerCall) {
	q.waiting[destination] = calls
	if len(calls) == 0 {
		delete(q.waiting, destination)
	}
}
