package rabbitmq_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/rabbitmq"
)

// A broker can be used before its server is there: nothing blocks, and each result says
// why.
func ExampleNew() {
	b := rabbitmq.New(rabbitmq.Options{URL: "amqp://timer:hunter2@127.0.0.1:1/"}, quiet)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }() // connects for ever

	command := broker.Message{Topic: b.Routing().Commands, Message: message.NewMessage("c-1", []byte("a command"))}
	for _, err := range b.Publisher().Publish(ctx, command) {
		fmt.Println("the broker is away:", errors.Is(err, broker.ErrUnavailable))
	}
	fmt.Println("ready:", b.Ready(ctx) == nil)
	stop()
	fmt.Println(<-ended)
	// Output:
	// the broker is away: true
	// ready: false
	// <nil>
}
