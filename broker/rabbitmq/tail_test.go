package rabbitmq_test

import (
	"context"
	"testing"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/rabbitmq"
)

// TestTailWhoseCallerIsGoneLeavesNoQueue gives up while the server declares the queue of a
// tail. A queue that stayed would get messages of the topic until the connection ends.
func TestTailWhoseCallerIsGoneLeavesNoQueue(t *testing.T) {
	t.Parallel()
	r := open(t)
	b := r.ready(r.opt)
	client := r.opt
	client.Client = true
	c := r.ready(client)
	late, cancel := context.WithCancel(t.Context())
	cancel()
	tail := b.Tail()
	for range 10 {
		if _, err := tail.Subscribe(late, r.topic()); err == nil {
			t.Log("the server was faster")
		}
	}
	must(t, tail.Close())
	rabbitmq.Answered(b)
	until(t, "no queue that takes messages", func() bool {
		return broker.NewWatermillPublisher(c.Publisher()).Publish(r.topic(), text("for no queue")) != nil
	})
}
