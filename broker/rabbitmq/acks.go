package rabbitmq

import (
	"slices"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/internal/failpoint"
)

// Acks go to the server together: one for all messages up to the first that is
// not settled, and one each for those behind it. The server looks for each ack
// among all messages in flight.
type acks struct {
	channel *amqp.Channel
	wake    chan struct{} // holds one: something is to be sent
	done    chan struct{} // closed when nothing is sent any more

	mu      sync.Mutex
	low     uint64              // every tag up to this one is settled
	settled map[uint64]struct{} // tags above low that are settled
	acked   []uint64            // not sent yet
	back    []uint64            // given back, not sent yet
	holds   bool                // what is given back is not sent: it would come here again
	closed  bool
}

func newAcks(channel *amqp.Channel) *acks {
	a := &acks{
		channel: channel, holds: true,
		wake:    make(chan struct{}, 1),
		done:    make(chan struct{}),
		settled: make(map[uint64]struct{}),
	}
	go a.send()
	return a
}

// ack notes that a message is handled.
func (a *acks) ack(tag uint64) {
	a.mu.Lock()
	a.acked = append(a.acked, tag)
	a.mu.Unlock()
	a.hurry()
}

// giveBack notes that a message goes back to the server.
func (a *acks) giveBack(tag uint64) {
	a.mu.Lock()
	a.back = append(a.back, tag)
	a.mu.Unlock()
	a.hurry()
}

// canceled notes that the server sends no more, so that messages can be given
// back.
func (a *acks) canceled() {
	a.mu.Lock()
	a.holds = false
	a.mu.Unlock()
	a.hurry()
}

// close sends what there is, and no more.
func (a *acks) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.hurry()
	<-a.done
}

func (a *acks) hurry() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// send sends acks until it is closed. Those that can't be sent belong to a
// channel that is over: the server delivers their messages again.
func (a *acks) send() {
	defer close(a.done)
	for range a.wake {
		back, upTo, single, closed := a.next()
		for _, tag := range back {
			_ = a.channel.Nack(tag, false, true)
		}
		if upTo > 0 {
			_ = a.channel.Ack(upTo, true)
		}
		for _, tag := range single {
			_ = a.channel.Ack(tag, false)
		}
		if upTo > 0 || len(single) > 0 {
			failpoint.Here("acked")
		}
		if closed {
			return
		}
	}
}

// next returns what is to be sent, in this order: messages to give back, the tag
// up to which all are handled, and others that are handled. An ack of many must
// name one that was not acked before (rabbit_channel.erl, collect_acks).
func (a *acks) next() (back []uint64, upTo uint64, single []uint64, closed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.holds {
		back, a.back = a.back, nil
	}
	acked := a.acked
	a.acked = nil
	for _, tags := range [][]uint64{back, acked} {
		for _, tag := range tags {
			a.settled[tag] = struct{}{}
		}
	}
	for {
		if _, ok := a.settled[a.low+1]; !ok {
			break
		}
		a.low++
		delete(a.settled, a.low)
	}
	slices.Sort(acked)
	n, found := slices.BinarySearch(acked, a.low)
	if found {
		n++
	}
	if n > 0 {
		upTo = acked[n-1]
	}
	return back, upTo, acked[n:], a.closed
}
