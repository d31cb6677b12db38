package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/broker/connection"
)

const (
	makers     = 32         // queues made at the same time: the server does four times as many a second as one by one
	maxAwaited = 256        // queues that are the next to be made, for which calls wait
	makingWait = apiTimeout // longest wait of a call for them
)

// Makings are the queues that are made for the first messages of topics, in the
// order of these. Calls wait only for those that are made soon. A message whose
// queue is not made by then has failed, so that no call holds up the messages of
// other topics; its queue is made nevertheless.
type makings struct {
	mu      sync.Mutex
	all     map[string]*making // by topic: waiting, or being made
	waiting []*making
	made    int // how many are done
	begun   int // how many there have been
	makers  int // goroutines that make them
}

// A making is a queue that is to be made.
type making struct {
	topic  string
	number int           // in the order of makings
	done   chan struct{} // closed when err is set
	err    error
}

// errMaking says that a queue is being made, or is going to be.
var errMaking = errors.New("the queue is not made yet, those of other topics come first")

// makeTopic has the queue of a topic made if it was not yet. The making is nil
// if there is nothing to wait for. A broker that makes no queues relies on the
// server to return what has none.
func (b *Broker) makeTopic(topic string) (*making, error) {
	if _, ok := b.known.Load(topic); ok || b.opt.Client || b.opt.Verify {
		return nil, nil
	}
	if _, err := b.main.Current(); err != nil {
		return nil, err
	}
	s := &b.makings
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.all[topic]
	if !ok {
		if s.makers < makers {
			if !b.term.Add(&b.calls) {
				return nil, connection.ErrClosed
			}
			s.makers++
			go func() {
				defer b.calls.Done()
				b.makeAll()
			}()
		}
		s.begun++
		m = &making{topic: topic, number: s.begun, done: make(chan struct{})}
		s.all[topic] = m
		s.waiting = append(s.waiting, m)
	}
	if m.number > s.made+maxAwaited {
		return nil, errMaking
	}
	return m, nil
}

// next returns the next queue to be made, nil if there is none: then the caller
// ends.
func (s *makings) next() *making {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		s.makers--
		return nil
	}
	m := s.waiting[0]
	s.waiting = s.waiting[1:]
	return m
}

// end sets the result of a making.
func (s *makings) end(m *making, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, m.topic)
	s.made++
	m.err = err
	close(m.done)
}

// makeAll makes queues until there are none to be made, on a channel of its own.
func (b *Broker) makeAll() {
	e := newExclusive()
	for m := b.makings.next(); m != nil; m = b.makings.next() {
		ctx, cancel := context.WithTimeout(context.Background(), apiTimeout)
		err := b.makeQueuesOn(ctx, e, b.queueOf(b.opt.Role, m.topic))
		if err == nil {
			b.known.Store(m.topic, true)
		}
		b.makings.end(m, err)
		if ctx.Err() != nil { // the channel may still wait for the answer
			b.release(e)
			e = newExclusive()
		}
		cancel()
	}
	b.release(e)
}

// release closes a channel when it is not used any more.
func (b *Broker) release(e *exclusive) {
	b.calls.Go(func() { // the caller is counted
		e.slot <- struct{}{}
		if e.channel != nil {
			_ = e.channel.Close()
		}
	})
}

// await returns the messages whose queue was made, and sets the results of the
// others.
func (b *Broker) await(ctx context.Context, waiting []outgoing, results []error) (ready []outgoing) {
	if len(waiting) == 0 {
		return nil
	}
	late := time.NewTimer(makingWait)
	defer late.Stop()
	over := false
	for _, m := range waiting {
		if !over {
			select {
			case <-m.queue.done:
			case <-late.C:
				over = true
			case <-ctx.Done():
				over = true
			}
		}
		select {
		case <-m.queue.done:
			results[m.index] = m.queue.err
		default:
			results[m.index] = fmt.Errorf("queue %s: %w", m.topic, errMaking)
		}
		if results[m.index] == nil {
			ready = append(ready, m)
		}
	}
	return ready
}
