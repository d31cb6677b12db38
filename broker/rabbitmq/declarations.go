package rabbitmq

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/broker/connection"
)

// The queue of a topic is declared before the first message is published to it, that of
// many topics at once: the server does four times as many a second as one by one. A
// message whose queue is not declared in time has failed, so that no call holds up the
// messages of other topics; its queue is declared nevertheless.
const (
	declarers      = 32         // queues declared at the same time
	declareTimeout = apiTimeout // longest wait of a call for them
)

// A declaration is that of a queue, for all calls that publish to it. While the server
// owes the answer the queue is not declared again: each try would take a channel.
type declaration struct {
	done chan struct{} // closed when err is set
	err  error
}

// errNotDeclared says that a queue is being declared, or is going to be.
var errNotDeclared = errors.New("the queue is not declared yet")

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
	d := &declaration{done: make(chan struct{})}
	if other, ok := b.declaring.LoadOrStore(topic, d); ok {
		return other.(*declaration), nil
	}
	if !b.term.Add(&b.calls) {
		return nil, connection.ErrClosed
	}
	go func() {
		defer b.calls.Done()
		defer b.declaring.Delete(topic)
		b.declare(topic, d)
	}()
	return d, nil
}

// declare declares the queue of a topic, on one of the channels for that. A channel on
// which the server does not answer in time is replaced, and closed when it has.
func (b *Broker) declare(topic string, d *declaration) {
	e := <-b.declarers
	ctx, cancel := context.WithTimeout(context.Background(), apiTimeout)
	defer cancel()
	conn, err := b.main.Current()
	if err == nil {
		err = b.ensureQueue(ctx, e, conn, b.queueOf(b.opt.Role, topic))
	}
	if code(err) == amqp.NotFound { // the exchange
		b.main.Recheck()
	}
	if d.err = err; err == nil {
		b.known.Store(topic, true)
	}
	close(d.done)
	if ctx.Err() == nil {
		b.declarers <- e
		return
	}
	b.declarers <- newExclusive()
	e.slot <- struct{}{}
	if e.channel != nil {
		_ = e.channel.Close()
	}
}

// await returns the messages whose queue was declared, and sets the results of the
// others.
func (b *Broker) await(ctx context.Context, waiting []outgoing, results []error) (ready []outgoing) {
	ctx, cancel := context.WithTimeout(ctx, declareTimeout)
	defer cancel()
	for _, m := range waiting {
		select {
		case <-m.queue.done:
		case <-ctx.Done():
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
