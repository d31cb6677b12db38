package outbox

import (
	"math"
	"sync"
)

// A backlog tells how many rows wait in front of a forwarder: those that it has
// not come to yet. What it has left behind, because a topic fails, is none of
// them, since it delays nobody. The zero value is that of a forwarder that has
// not looked yet.
type backlog struct {
	mu       sync.Mutex
	appended int   // rows that it was told of
	seen     int   // rows that it came to, of all these; it may be ahead of what it was told
	newest   int64 // the last row that it came to
	looked   bool
	ended    bool // it came to the end once: before, it does not know how many are there
}

// add notes that rows were appended.
func (b *backlog) add(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.appended += n
}

// told returns how many rows it was told of, for saw.
func (b *backlog) told() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.appended
}

// saw notes rows that were read, and whether they are the last ones. What it had
// been told before, it has come to then, whether it is there or not.
func (b *backlog) saw(rows []Row, told int, last bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, row := range rows {
		if row.Seq > b.newest {
			b.newest = row.Seq
			b.seen++
		}
	}
	b.looked = true
	if last {
		b.ended = true
		b.seen = told
	}
}

// waiting returns how many rows wait; very many if that is not known.
func (b *backlog) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.looked && !b.ended {
		return math.MaxInt
	}
	return max(0, b.appended-b.seen)
}
