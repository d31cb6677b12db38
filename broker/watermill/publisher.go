package watermill

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
)

// publisher publishes with the publisher of the pair. See [broker.Publisher] for
// the contract.
type publisher struct{ *Broker }

// Publish calls the publisher of the pair for each key with one message, or one batch, at
// a time: a call has only one error, and messages of a key stay in order. If a batch
// fails it has published nothing, and its messages are published one by one. A call that
// has begun goes on when ctx ends, so its messages may be published.
func (p publisher) Publish(ctx context.Context, messages ...broker.Message) []error {
	results := make([]error, len(messages))
	queues := make([][]int, min(p.opt.Calls, len(messages))) // indexes of messages
	for i, m := range messages {
		if m.Topic == "" {
			results[i] = fmt.Errorf("%w: the topic is empty", broker.ErrRefused)
			continue
		}
		q := i % len(queues)
		if key := broker.Key(m.Message); key != "" {
			h := fnv.New32a()
			_, _ = h.Write([]byte(key)) // it never fails
			q = int(h.Sum32() % uint32(len(queues)))
		}
		queues[q] = append(queues[q], i)
	}
	var publishing sync.WaitGroup
	for _, queue := range queues {
		publishing.Go(func() {
			for len(queue) > 0 {
				n := p.batch(messages, queue)
				err := p.call(ctx, messages, queue[:n])
				for _, i := range queue[:n] {
					if results[i] = err; err != nil && n > 1 && ctx.Err() == nil { // find the cause
						results[i] = p.call(ctx, messages, []int{i})
					}
				}
				queue = queue[n:]
			}
		})
	}
	publishing.Wait()
	return results
}

// batch returns how many messages of a queue the next call publishes: messages of one
// topic, at most Options.Batch.
func (p publisher) batch(messages []broker.Message, queue []int) int {
	n := 1
	for n < min(len(queue), p.opt.Batch) && messages[queue[n]].Topic == messages[queue[0]].Topic {
		n++
	}
	return n
}

// call publishes some messages of one topic with one call.
func (p publisher) call(ctx context.Context, messages []broker.Message, some []int) error {
	topic := messages[some[0]].Topic
	if _, away := p.Interruptions(); away != nil {
		return away
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	select {
	case p.calls <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	copies := make([]*message.Message, len(some)) // the call may outlive ctx
	for i, n := range some {
		copies[i] = withoutMeta(messages[n].Message)
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-p.calls }()
		done <- p.pub.Publish(topic, copies...)
	}()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("publish to %.200s: %w", topic, p.opt.Classify(err))
	}
	return nil
}
