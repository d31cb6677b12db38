package outbox

import (
	"github.com/ThreeDotsLabs/watermill/message"
)

// How much of the outbox a session looks at in vain before it pauses: batches
// that failed, and batches of topics that are known to fail.
const (
	maxTries = 4
	maxLooks = 64
)

// A detour leads around rows of which none gets through. Their topics may fail
// where others work: without it as many of them as one batch holds would stop
// everybody. A session that is at its end leaves it to the next, which tries the
// oldest rows and then goes on from there.
type detour struct {
	from   int64           // rows up to this one were looked at
	topics map[string]bool // that failed; they are left alone until something gets through

	failure      error // why nothing gets through; nil if something did
	tries, looks int   // batches since then
}

// begin begins a session.
func (d *detour) begin() { d.failure, d.tries, d.looks = nil, 0, 0 }

// clear forgets which topics failed.
func (d *detour) clear() { d.from, d.topics = 0, nil }

// open returns the rows of topics that are not known to fail.
func (d *detour) open(rows []Row, topic func(*message.Message) string) []Row {
	if len(d.topics) == 0 {
		return rows
	}
	var open []Row
	for _, row := range rows {
		if !d.topics[topic(row.Message)] {
			open = append(open, row)
		}
	}
	return open
}

// look notes that a batch has no row to try. It returns an error if it is time to
// pause.
func (d *detour) look() error {
	if d.failure == nil {
		return nil
	}
	if d.looks++; d.looks < maxLooks {
		return nil
	}
	return d.failure
}

// failed notes that nothing got through to topics, and returns the reason if it
// is time to pause.
func (d *detour) failed(topics []string, reason error) error {
	if d.topics == nil {
		d.topics = make(map[string]bool)
	}
	for _, topic := range topics {
		d.topics[topic] = true
	}
	d.failure = reason
	if d.tries++; d.tries < maxTries {
		return nil
	}
	return reason
}

// end notes that there are no more rows. It returns an error if nothing got
// through.
func (d *detour) end() error {
	if d.failure != nil {
		d.clear()
	}
	return d.failure
}
