package history

import (
	"maps"
	"slices"
	"time"
)

// A Restart is a fault after which the service had to know its earlier publishes:
// from its database, or from the messages that the broker keeps.
type Restart struct {
	Killed  time.Time `json:"killed"`           // when the process was dead
	Began   time.Time `json:"began"`            // when the next one began
	Emptied bool      `json:"emptied,omitzero"` // whether the broker had lost everything by then
}

// Times that keep [Refired] exact.
const (
	settled = time.Second            // of a process, after which an event that the broker stored had left the outbox
	hearing = 100 * time.Millisecond // within which a publish is observed; a process takes longer to begin
)

// Restarted records a restart. Those of a run are in order.
func (r *Recorder) Restarted(s Restart) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Restarts = append(r.history.Restarts, s)
}

// newPlaces is how far the places of a broker are from those it had before it was
// emptied, which is more than it ever numbers.
const newPlaces = 1 << 48

// Empty records that the broker has lost everything, and counts from the beginning. Messages
// that are recorded from now on have a place above earlier ones: the number that is
// returned, plus that of the broker. [Recorder.Message] and [Recorder.Accepted] add it;
// who calls [Recorder.Sent] must.
func (r *Recorder) Empty() (base uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Emptied += newPlaces
	r.lastSeq, r.before = r.history.Emptied, len(r.history.Messages)
	return r.history.Emptied
}

// forget treats messages that the broker lost as never confirmed, unless the service
// had acked them: they may have been taken, or not.
func (c *checker) forget() {
	if c.Emptied == 0 {
		return
	}
	c.Sent = slices.Clone(c.Sent)
	for i, s := range c.Sent {
		if _, accepted := c.Accepted[s.Seq]; s.Acked && s.Seq < c.Emptied && !accepted {
			c.Sent[i].Acked = false
			c.verdict.Gone++
		}
	}
}

// checkRefired finds events that were published again by a process that had to know
// better: the broker had them for long when the one before was killed. A publish may be
// known from listening, or from the messages that the broker keeps, or both.
func (c *checker) checkRefired() {
	for _, id := range slices.Sorted(maps.Keys(c.stored)) {
		stored := slices.SortedFunc(slices.Values(c.stored[id]), time.Time.Compare)
		again := slices.Concat(stored[1:], c.Attempts[id].Again)
		for _, at := range again {
			i, _ := slices.BinarySearchFunc(c.Restarts, at.Add(-hearing), func(r Restart, at time.Time) int { return r.Began.Compare(at) })
			if i == 0 {
				continue
			}
			r := c.Restarts[i-1] // the last before it
			known := stored[0]
			if r.Emptied {
				known = lastBefore(r.Killed, slices.Concat(stored, again))
			}
			if c.ran(known, r.Killed) > settled {
				c.verdict.Add(Refired, "event %s was published at %s by a process that began at %s, though the broker had it at %s, before the one before was killed at %s",
					id, clock(at), clock(r.Began), clock(known), clock(r.Killed))
				break
			}
		}
	}
}

// ran returns how long a process ran between two times. To put a copy in the place of a
// database may take a second.
func (c *checker) ran(from, to time.Time) time.Duration {
	d := to.Sub(from)
	for _, r := range c.Restarts {
		if r.Killed.After(from) && r.Began.Before(to) {
			d -= r.Began.Sub(r.Killed)
		}
	}
	return d
}

// lastBefore returns the last of some times up to one, which is when an event had been
// published for the last time as far as a database knows; that time if there is none.
func lastBefore(limit time.Time, times []time.Time) time.Time {
	var last time.Time
	for _, t := range times {
		if !t.After(limit) {
			last = later(last, t)
		}
	}
	if last.IsZero() {
		return limit
	}
	return last
}
