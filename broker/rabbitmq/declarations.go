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
	maxWorkers     = 32         // queues declared at the same time: the server does four times as many a second as one by one
	maxAwaited     = 256        // queues that are the next to be declared, for which calls wait
	declareTimeout = apiTimeout // longest wait of a call for them
)

// Declarations are the queues that are declared for the first messages of topics, in
// the order of these. Calls wait only for those whose turn is soon. A message whose
// queue is not declared by then has failed, so that no call holds up the messages of
// other topics; its queue is declared nevertheless.
type declarations struct {
	mu      sync.Mutex
	byTopic map[string]*declaration // waiting, or being declared
	hanging map[string]bool         // topics whose queue the server has not answered for in time
	waiting []*declaration
	begun   int // how many there have been
	done    int // how many of them have a result
	workers int // goroutines that declare
}

// A declaration is a queue that is to be declared.
type declaration struct {
	topic  string
	number int           // in the order of declarations
	done   chan struct{} // closed when err is set
	err    error
}

// errNotDeclared says that a queue is being declared, or is going to be.
var errNotDeclared = errors.New("the queue is not declared yet, those of other topics come first")

// errHangs says that the server has not answered for a queue.
var errHangs = errors.New("the server has not answered yet whether it has the queue")

// declareTopic has the queue of a topic declared if it was not yet. The declaration is
// nil if there is nothing to wait for. A broker that declares no queues relies on the
// server to return what has none.
func (b *Broker) declareTopic(topic string) (*declaration, error) {
	if _, ok := b.known.Load(topic); ok || b.opt.Client || b.opt.Verify {
		return nil, nil
	}
	if _, err := b.main.Current(); err != nil {
		return nil, err
	}
	s := &b.declarations
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hanging[topic] {
		return nil, errHangs
	}
	d, ok := s.byTopic[topic]
	if !ok {
		if s.workers < maxWorkers {
			if !b.term.Add(&b.calls) {
				return nil, connection.ErrClosed
			}
			s.workers++
			go func() {
				defer b.calls.Done()
				b.declareWaiting()
			}()
		}
		s.begun++
		d = &declaration{topic: topic, number: s.begun, done: make(chan struct{})}
		s.byTopic[topic] = d
		s.waiting = append(s.waiting, d)
	}
	if d.number > s.done+maxAwaited {
		return nil, errNotDeclared
	}
	return d, nil
}

// next returns the next queue to be declared, nil if there is none: then the worker
// ends.
func (s *declarations) next() *declaration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		s.workers--
		return nil
	}
	d := s.waiting[0]
	s.waiting = s.waiting[1:]
	return d
}

// end sets the result of a declaration.
func (s *declarations) end(d *declaration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byTopic, d.topic)
	s.done++
	d.err = err
	close(d.done)
}

// declareWaiting declares queues until none is waiting, on a channel of its own.
func (b *Broker) declareWaiting() {
	e := newExclusive()
	for d := b.declarations.next(); d != nil; d = b.declarations.next() {
		ctx, cancel := context.WithTimeout(context.Background(), apiTimeout)
		own := e
		err := b.ensureQueuesOn(ctx, func(string) *exclusive { return own }, b.queueOf(b.opt.Role, d.topic))
		if err == nil {
			b.known.Store(d.topic, true)
		}
		if ctx.Err() != nil { // the channel may still wait for the answer
			b.declarations.hang(d.topic, true)
			b.release(e, func() { b.declarations.hang(d.topic, false) })
			e = newExclusive()
		}
		b.declarations.end(d, err)
		cancel()
	}
	b.release(e, func() {})
}

// release calls released and closes a channel when it is not used any more.
func (b *Broker) release(e *exclusive, released func()) {
	b.calls.Go(func() { // the caller is counted
		e.slot <- struct{}{}
		released()
		if e.channel != nil {
			_ = e.channel.Close()
		}
	})
}

// hang notes whether the server owes the answer for the queue of a topic. Until it comes
// that is not declared again: each try would take a channel.
func (s *declarations) hang(topic string, hangs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if hangs {
		s.hanging[topic] = true
	} else {
		delete(s.hanging, topic)
	}
}

// await returns the messages whose queue was declared, and sets the results of the
// others.
func (b *Broker) await(ctx context.Context, waiting []outgoing, results []error) (ready []outgoing) {
	if len(waiting) == 0 {
		return nil
	}
	late := time.NewTimer(declareTimeout)
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
			results[m.index] = fmt.Errorf("queue %s: %w", m.topic, errNotDeclared)
		}
		if results[m.index] == nil {
			ready = append(ready, m)
		}
	}
	return ready
}
