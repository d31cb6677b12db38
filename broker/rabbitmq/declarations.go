package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/singleflight"
)

// The queue of a topic is declared before the first message is published to it, that of
// many topics at once: the server does four times as many a second as one by one. A
// message whose queue is not declared in time has failed, so that no call holds up the
// messages of other topics; its queue is declared nevertheless.
const (
	declarers      = 32         // queues declared at the same time
	declareTimeout = apiTimeout // longest wait of a call for them
)

// errNotDeclared says that a queue is being declared, or is going to be.
var errNotDeclared = errors.New("the queue is not declared yet")

// declareTopic has the queue of a topic declared if it was not yet, and returns nil if
// there is nothing to wait for. A broker that declares no queues relies on the server to
// return what has none.
func (b *Broker) declareTopic(topic string) <-chan singleflight.Result {
	if _, ok := b.known.Load(topic); ok || b.opt.Client || b.opt.Verify {
		return nil
	}
	q := b.queueOf(b.opt.Role, topic)
	return b.begin("queue "+q.name, func() error {
		b.declarers <- struct{}{}
		free := sync.OnceFunc(func() { <-b.declarers })
		defer free()
		defer time.AfterFunc(apiTimeout, free).Stop() // one that hangs holds up no other
		conn, err := b.main.Current()
		if err == nil {
			o := b.object(conn, q)
			err = b.explain(o, onChannel(conn, o.make))
		}
		if code(err) == amqp.NotFound { // the exchange
			b.main.Recheck()
		}
		if err == nil {
			b.known.Store(topic, true)
		}
		return err
	})
}

// await returns the messages whose queue was declared, and sets the results of the
// others.
func (b *Broker) await(ctx context.Context, waiting []outgoing, declared map[string]<-chan singleflight.Result, results []error) (ready []outgoing) {
	ctx, cancel := context.WithTimeout(ctx, declareTimeout)
	defer cancel()
	errs := make(map[string]error)
	for topic, answer := range declared {
		if answer == nil {
			continue
		}
		if errs[topic] = await(ctx, answer); ctx.Err() != nil && errors.Is(errs[topic], ctx.Err()) {
			errs[topic] = fmt.Errorf("queue %s: %w", topic, errNotDeclared)
		}
	}
	for _, m := range waiting {
		if results[m.index] = errs[m.topic]; errs[m.topic] == nil {
			ready = append(ready, m)
		}
	}
	return ready
}
