package outbox

import "time"

// rereadInterval is the least time between two rereads. A row that commits at most so
// long after rows with higher numbers is found by a reread.
const rereadInterval = 50 * time.Millisecond

// A rereads says from which row a sender reads again. Several transactions append to a
// shard at once, so a row may commit, and wake the sender, after the sender has read rows
// with higher numbers. After such a wake the sender reads again the rows of at least the
// last 50 ms: at once, or 50 ms after the last reread. It does not publish again the rows
// that are still in flight.
type rereads struct {
	on           bool        // several transactions append at once
	timer        *time.Timer // fires when the next reread is to begin
	last         time.Time   // when the last reread began
	older, newer int64       // the last row that had been read when the reread before the last began, and the last
}

func newRereads(on bool) *rereads {
	r := &rereads{on: on, timer: time.NewTimer(0)}
	r.timer.Stop()
	return r
}

// woken is called when the sender was woken, and reports whether it should reread now.
func (r *rereads) woken(now time.Time) bool {
	if !r.on {
		return false
	}
	wait := rereadInterval - now.Sub(r.last)
	if wait <= 0 || wait > rereadInterval { // the clock may be set back
		return true
	}
	r.timer.Reset(wait)
	return false
}

// from returns the row behind which a reread begins; after is the last row read.
func (r *rereads) from(now time.Time, after int64) int64 {
	r.timer.Stop()
	from := min(r.older, after)
	r.last, r.older, r.newer = now, r.newer, after
	return from
}
