package main

import (
	"context"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
)

// An ear listens to a topic. Close it.
type ear struct {
	subscriber message.Subscriber
	cancel     context.CancelFunc
}

// listen begins to listen to a topic. What is published after it returned will
// be seen.
func listen(ctx context.Context, c *client, topic string) (ear, <-chan *message.Message, error) {
	ctx, cancel := context.WithCancel(ctx)
	e := ear{subscriber: c.Tail(), cancel: cancel}
	messages, err := e.subscriber.Subscribe(ctx, topic)
	if err != nil {
		e.close()
		return ear{}, nil, fmt.Errorf("listen to %s: %w", topic, err)
	}
	return e, messages, nil
}

// close ends the listening.
func (e ear) close() {
	e.cancel()
	_ = e.subscriber.Close() // nothing is lost with it
}
