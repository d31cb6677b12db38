package outbox

import (
	"math"
	"sync"

	"github.com/event-service-agent/timer-service/envelope"
)

// A backlog counts the rows at the head of a table that a sender has not read yet.
// Deferred rows do not count, since they delay no others, nor do receipts, since firing
// makes none. The zero value is for a sender that has read nothing.
type backlog struct {
	mu       sync.Mutex
	appended int   // rows that the sender was notified of
	seen     int   // rows that it has read; may be ahead of appended
	newest   int64 // the last row that it has read
	started  bool
	complete bool // it has read up to the last row once; before, the number of rows is not known
}

// add notes that rows were appended.
func (b *backlog) add(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.appended += n
}

// notified returns how many rows were appended, for observe.
func (b *backlog) notified() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.appended
}

// observe notes rows that were read, and whether they end with the last row of the table.
// Then all rows that were appended before the read count as seen.
func (b *backlog) observe(rows []Row, appended int, last bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, row := range rows {
		if row.Seq > b.newest {
			b.newest = row.Seq
			if !envelope.IsReceipt(row.Message.Metadata.Get(envelope.HeaderType)) {
				b.seen++
			}
		}
	}
	b.started = true
	if last {
		b.complete = true
		b.seen = appended
	}
}

// waiting returns how many rows wait, or [math.MaxInt] if that is not known.
func (b *backlog) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.started && !b.complete {
		return math.MaxInt
	}
	return max(0, b.appended-b.seen)
}
