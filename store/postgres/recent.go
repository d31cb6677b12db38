package postgres

import (
	"cmp"
	"slices"
	"sync"

	"github.com/event-service-agent/timer-service/outbox"
)

// maxRecent is how many events are kept in memory: about as many kilobytes.
const maxRecent = 4096

// Recent are the events that this store has committed to its own shard and that were
// not read yet. The forwarder, which mostly asks for just these, gets them without a
// read of the database. Each is returned once, from here or from there: a reader that
// begins again reads the database. So it finds what others have put into the shard.
type recent struct {
	mu     sync.Mutex
	shard  int32        // none until the store owns one
	behind bool         // the end of what the database has was not read yet
	after  int64        // events up to this number are read from the database
	last   int64        // the last one that was returned from here
	rows   []outbox.Row // those behind after that were not returned, by their numbers
}

// own begins with a shard, of which the database is read first.
func (r *recent) own(shard int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shard, r.behind, r.rows = shard, true, nil
}

// add notes events that were committed. If they are too many, or the database may have
// returned them already, it is read.
func (r *recent) add(shard int32, rows []outbox.Row) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if shard != r.shard || len(rows) == 0 {
		return
	}
	for _, row := range rows {
		if row.Seq > r.after {
			r.rows = append(r.rows, row)
		}
	}
	// Transactions do not commit in the order of the numbers.
	slices.SortFunc(r.rows, func(a, b outbox.Row) int { return cmp.Compare(a.Seq, b.Seq) })
	if n := len(r.rows); n > maxRecent {
		r.leave(r.rows[n-1].Seq)
	}
}

// leave has events up to a number read from the database.
func (r *recent) leave(last int64) {
	r.after = max(r.after, last)
	r.rows = slices.DeleteFunc(r.rows, func(row outbox.Row) bool { return row.Seq <= r.after })
}

// hosted notes the numbers of events that the transaction of a host has added: it may
// commit at any time.
func (r *recent) hosted(shard int32, seqs []int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(seqs); n > 0 && shard == r.shard {
		r.leave(seqs[n-1])
	}
}

// forget has all events read from the database, since there may be others, or fewer.
func (r *recent) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.behind, r.rows = true, nil
}

// take returns the first events of a shard after a number, and reports whether these
// are all there are, or as many as were asked for. If not, the database is to be read.
func (r *recent) take(shard int32, after int64, limit int) (taken []outbox.Row, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if shard == r.shard && after == 0 { // from the beginning again, with what was returned
		r.leave(r.last)
	}
	if shard != r.shard || r.behind || after == 0 || after < r.after {
		return nil, false
	}
	begin, _ := slices.BinarySearchFunc(r.rows, after+1, func(row outbox.Row, seq int64) int { return cmp.Compare(row.Seq, seq) })
	end := min(begin+limit, len(r.rows))
	taken = slices.Clone(r.rows[begin:end])
	r.rows = slices.Delete(r.rows, begin, end)
	if n := len(taken); n > 0 {
		r.last = max(r.last, taken[n-1].Seq)
	}
	return taken, true
}

// read notes events that the database has returned, and whether it may have more.
func (r *recent) read(shard int32, rows []outbox.Row, more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if shard != r.shard {
		return
	}
	r.behind = r.behind && more
	if n := len(rows); n > 0 {
		r.leave(rows[n-1].Seq)
	}
}
