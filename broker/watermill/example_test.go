package watermill_test

import (
	"context"
	"fmt"
	"log/slog"

	wm "github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/watermill"
)

// A host hands in the pair that it has. In its fx application the broker is a
// value for app.Module, which runs it.
func Example() {
	pair := gochannel.NewGoChannel(gochannel.Config{}, wm.NopLogger{})
	defer func() { _ = pair.Close() }()

	b := watermill.New(pair, func(string) (message.Subscriber, error) { return pair, nil }, watermill.Options{}, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	for b.Ready(ctx) != nil {
		continue
	}

	messages, err := b.Subscriber("timer-service").Subscribe(ctx, b.Routing().Commands)
	if err != nil {
		fmt.Println(err)
	}
	command := broker.Message{Topic: b.Routing().Commands, Message: message.NewMessage(wm.NewUUID(), []byte("a command"))}
	fmt.Println(b.Publisher().Publish(ctx, command))
	received := <-messages
	fmt.Printf("%s, delivery %d\n", received.Payload, broker.Deliveries(received))
	received.Ack()
	stop()
	fmt.Println(<-ended)
	// Output:
	// [<nil>]
	// a command, delivery 1
	// <nil>
}
