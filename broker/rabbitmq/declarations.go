package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// The queue of a topic is declared before the first message is published to it. Many
// queues are declared at once: the server does four times as many a second as one by one.
// If a queue is not declared in time its messages fail, so that no call delays the
// messages of other topics. The declaration goes on nevertheless.
const (
	maxDeclaring   = 32         // queues declared at the same time
	declareTimeout = apiTimeout // longest wait of a call for its declarations
)

// errNotDeclared says that a queue is being declared, or will be.
var errNotDeclared = errors.New("the queue is not declared yet")

// declareTopic declares the queue of a topic if that was not done yet. It returns a
// function that waits for the declaration, or nil if there is nothing to wait for. A
// broker that declares no queues relies on the server, which returns messages without a
// queue.
func (b *Broker) declareTopic(ctx context.Context, topic string) (wait func() error) {
	if _, ok := b.declaredTopics.Load(topic); ok || b.opt.Client || b.opt.Verify {
		return nil
	}
	answer := b.begin("topic "+topic, func() error {
		b.declaring <- struct{}{}
		defer func() { <-b.declaring }() // ensureQueues has a timeout, so the slot is freed in time
		err := b.ensureQueues(context.Background(), b.queueOf(b.opt.Role, topic))
		if err == nil {
			b.declaredTopics.Store(topic, true)
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
