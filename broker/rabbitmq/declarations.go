package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"sync"
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

// declareTopic has the queue of a topic declared if it was not yet. It returns a function
// that waits for that, or nil if there is nothing to wait for. A broker that declares no
// queues relies on the server to return what has none.
func (b *Broker) declareTopic(ctx context.Context, topic string) (wait func() error) {
	if _, ok := b.known.Load(topic); ok || b.opt.Client || b.opt.Verify {
		return nil
	}
	answer := b.begin("topic "+topic, func() error {
		b.declarers <- struct{}{}
		defer func() { <-b.declarers }() // in time, also while the server does not answer: others wait
		err := b.ensureQueues(context.Background(), b.queueOf(b.opt.Role, topic))
		if err == nil {
			b.known.Store(topic, true)
		}
		return err
	})
	return sync.OnceValue(func() error {
		err := await(ctx, answer)
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return fmt.Errorf("queue %s: %w", topic, errNotDeclared)
		}
		return err
	})
}
