package sqlite

import (
	"slices"
	"sync"

	"github.com/event-service-agent/timer-service/outbox"
)

// maxRecent is how many rows of the outbox are kept in memory: about as many
// kilobytes.
const maxRecent = 4096

// Recent are the rows of the outbox that were committed last, without gaps. The
// forwarder, which mostly asks for just these, gets them without a read of the
// database: append, read and delete of an event then take 11 µs of CPU instead of
// 18 in batches of 1,000, and 180 instead of 340 alone (measured 2026-11). Each is
// returned once: a reader that begins again reads the database.
type recent struct {
	mu   sync.Mutex
	rows []outbox.Row
	full bool // there are rows behind these that did not fit
}

// add notes rows that were committed, in the order of their numbers.
func (r *recent) add(rows []outbox.Row) {
	if len(rows) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch n := len(r.rows); {
	case n == 0, rows[0].Seq != r.rows[n-1].Seq+1 && !r.full:
		clear(r.rows)
		r.rows, r.full = r.rows[:0], false
	case r.full:
		return
	}
	n := min(len(rows), maxRecent-len(r.rows))
	r.rows, r.full = append(r.rows, rows[:n]...), n < len(rows)
}

// take returns the first rows after a number, and reports whether these are all
// there are, or as many as were asked for.
func (r *recent) take(after int64, limit int) (taken []outbox.Row, all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	begin := 0
	for begin < len(r.rows) && r.rows[begin].Seq <= after {
		begin++
	}
	end := begin
	if begin < len(r.rows) && r.rows[begin].Seq == after+1 {
		end = min(begin+limit, len(r.rows))
	}
	taken = slices.Clone(r.rows[begin:end])
	r.rows = slices.Delete(r.rows, 0, end)
	return taken, len(taken) == limit || len(taken) > 0 && !r.full
}

// forget drops rows up to a number, if there are any, and those behind them: they
// are read from the database.
func (r *recent) forget(last int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.rows) > 0 && r.rows[0].Seq <= last {
		clear(r.rows)
		r.rows = r.rows[:0]
	}
}
