package outbox

import "time"

// rereadInterval is the least time between rereads, and how late a row may commit,
// behind rows with higher numbers, that one finds.
const rereadInterval = 50 * time.Millisecond

// rereads has a sender find rows that commit late soon. Several transactions append to
// a shard at once, so one may commit, and wake the sender, when it has read rows with
// higher numbers. After each wake it reads again what it has read for the last 50 ms and
// more: at once, or when 50 ms are over since it last did so. What is still in flight of
// these rows is not published again.
type rereads struct {
	on           bool        // several transactions append at once
	timer        *time.Timer // fires when it is time for a reread that a wake has asked for
	last         time.Time   // when there was one
	older, newer int64       // the last row read at the last but one, and at the last
}

func newRereads(on bool) *rereads {
	r := &rereads{on: on, timer: time.NewTimer(0)}
	r.timer.Stop()
	return r
}

// woken notes a wake, and reports whether it is time for a reread.
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
