package gochannel_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/gochannel"
)

// running returns a broker that runs until stop is called.
func running() (b *gochannel.Broker, stop func()) {
	b = gochannel.New(gochannel.Options{}, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	for b.Ready(ctx) != nil {
		continue
	}
	return b, func() {
		cancel()
		if err := <-ended; err != nil {
			fmt.Println(err)
		}
	}
}

// A role gets messages that are published after it subscribed.
func ExampleBroker_Subscriber() {
	b, stop := running()
	defer stop()

	messages, err := b.Subscriber("orders").Subscribe(context.Background(), b.Routing().EventsOf("acme"))
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(b.Publisher().Publish(context.Background(), broker.Message{Topic: "service.events", Message: message.NewMessage("id", []byte("an event"))}))
	received := <-messages
	fmt.Printf("%s, delivery %d\n", received.Payload, broker.Deliveries(received))
	received.Ack()
	// Output:
	// [<nil>]
	// an event, delivery 1
}
