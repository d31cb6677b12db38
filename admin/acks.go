package admin

import (
	"slices"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

// maxAcks is how many acks are remembered. They take less than a megabyte.
const maxAcks = 10_000

// Acks remember when the broker acked the last events of this instance, for the page of a
// timer: an outbox deletes an event with its ack.
type acks struct {
	mu   sync.Mutex
	last []ack // a ring, once it is full
	next int   // index of the next one
}

// An ack is the ack of one event.
type ack struct {
	event string // its id
	at    time.Time
}

// add records the acks of a batch.
func (a *acks) add(at time.Time, events []*message.Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last == nil {
		a.last = make([]ack, maxAcks)
	}
	for _, m := range events {
		a.last[a.next] = ack{m.UUID, at}
		a.next = (a.next + 1) % maxAcks
	}
}

// of returns when an event was acked, or zero if that is no longer known.
func (a *acks) of(event string) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := slices.IndexFunc(a.last, func(one ack) bool { return one.event == event }); i >= 0 {
		return a.last[i].at
	}
	return time.Time{}
}
