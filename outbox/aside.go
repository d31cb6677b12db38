package outbox

import (
	"errors"
	"iter"

	"github.com/ThreeDotsLabs/watermill/message"
)

// Topics that are aside fail while others work. A session goes on without them
// and tries each by itself, with its oldest rows. None of its rows may overtake
// those, so it comes back with a new pass over the outbox. Like the detour it
// outlives the session.
type aside struct {
	topics map[string]standing
	trying int  // tries at work
	back   bool // a topic got on: time for a new pass
}

// A standing is how it stands with a topic that is aside.
type standing int

const (
	waits  standing = iota // for a try
	busy                   // is being tried
	failed                 // again; waits for the next pass
	well                   // comes back with the next pass
)

// An attempt is the result of publishing rows to one topic.
type attempt struct {
	topic   string
	acked   []int64 // numbers of the rows that the broker has acked
	refused error   // what it refused; that holds nobody up
	failed  error   // why the rest did not get through
}

// err returns why rows are left.
func (t attempt) err() error { return errors.Join(t.refused, t.failed) }

// add sets topics aside.
func (a *aside) add(topics iter.Seq[string]) {
	if a.topics == nil {
		a.topics = make(map[string]standing)
	}
	for topic := range topics {
		if _, known := a.topics[topic]; !known {
			a.topics[topic] = failed
		}
	}
}

// split takes the rows of topics that are aside out of a batch. It returns the
// others, and those that are to be tried now, by topic.
func (a *aside) split(batch []Row, topic func(*message.Message) string) (rows []Row, apart map[string][]Row) {
	if len(a.topics) == 0 {
		return batch, nil
	}
	apart = make(map[string][]Row)
	for _, row := range batch {
		topic := topic(row.Message)
		switch at, is := a.topics[topic]; {
		case !is:
			rows = append(rows, row)
		case at == waits && a.trying < maxTopics:
			a.topics[topic] = busy
			a.trying++
			apart[topic] = []Row{row}
		case apart[topic] != nil:
			apart[topic] = append(apart[topic], row)
		}
	}
	return rows, apart
}

// settle notes the end of a try.
func (a *aside) settle(t attempt) {
	a.trying--
	a.topics[t.topic] = failed
	if t.failed == nil {
		a.topics[t.topic] = well
	}
	a.back = a.back || t.failed == nil || len(t.acked) > 0
}

// begin begins a pass.
func (a *aside) begin() {
	a.back = false
	for topic, at := range a.topics {
		switch at {
		case failed:
			a.topics[topic] = waits
		case well:
			delete(a.topics, topic)
		}
	}
}
