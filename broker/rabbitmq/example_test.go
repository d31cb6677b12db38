package rabbitmq_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/rabbitmq"
)

// Each topic is a queue of its name, bound to one exchange by its name.
func ExampleDefaultRouting() {
	routing := rabbitmq.DefaultRouting()
	fmt.Println("commands:    ", routing.CommandsOf("acme"))
	fmt.Println("events:      ", routing.EventsOf("acme"))
	fmt.Println("dead letters:", routing.DeadLettersOf("acme"))
	fmt.Println("a valid one: ", routing.Validate() == nil)
	// Output:
	// commands:     timer.commands
	// events:       svc.acme.q
	// dead letters: svc.acme.dlq
	// a valid one:  true
}

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

// Options that can't work are refused by Run, and no error shows a password.
func ExampleOptions() {
	for _, opt := range []rabbitmq.Options{
		{URL: "http://timer:hunter2@rabbit:15672/"},
		{QueueType: "lazy"},
	} {
		err := rabbitmq.New(opt, quiet).Run(context.Background())
		fmt.Println(err, strings.Contains(err.Error(), "hunter2"))
	}
	// Output:
	// URL 1 of RabbitMQ: does not begin with amqp:// or amqps:// false
	// queue type "lazy": set classic or quorum false
}
