package gochannel

import (
	"context"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"
)

// tailBuffer is how many messages a reader of a tail may be behind. More are
// dropped.
const tailBuffer = 8192

// tail subscribes to what is published from now on. See [broker.Broker] for its
// contract.
type tail struct {
	broker  *Broker
	mu      sync.Mutex
	closed  bool
	closing chan struct{}
	open    sync.WaitGroup
}

// Subscribe delivers what is published to a topic from now on.
func (t *tail) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, ErrClosed
	}
	ctx, stop := context.WithCancel(ctx)
	in, err := t.broker.bus.Subscribe(ctx, topic)
	if err != nil {
		stop()
		return nil, err
	}
	out, buffer := make(chan *message.Message), make(chan *message.Message, tailBuffer)
	t.open.Add(1)
	if !t.broker.start(func() {
		defer t.open.Done()
		var parts sync.WaitGroup
		defer parts.Wait()
		parts.Go(func() { take(in, buffer) })
		parts.Go(func() { hand(ctx, buffer, out) })
		select {
		case <-t.closing:
		case <-t.broker.ended:
		case <-ctx.Done():
		}
		stop() // in ends, then buffer, then out
	}) {
		t.open.Done()
		stop()
		return nil, ErrClosed
	}
	return out, nil
}

// Close ends all subscriptions and waits until their channels are closed.
func (t *tail) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.closed = true
		close(t.closing)
	}
	t.open.Wait()
	return nil
}

// take takes messages as fast as they are published, so that nobody waits for a
// slow reader.
func take(in <-chan *message.Message, buffer chan<- *message.Message) {
	defer close(buffer)
	for msg := range in {
		msg.Ack()
		select {
		case buffer <- msg.Copy():
		default:
		}
	}
}

// hand hands messages to whoever reads out.
func hand(ctx context.Context, buffer <-chan *message.Message, out chan<- *message.Message) {
	defer close(out)
	for msg := range buffer {
		msg.SetContext(ctx)
		select {
		case out <- msg:
		case <-ctx.Done():
			return
		}
	}
}
