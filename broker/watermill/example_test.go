package watermill_test

import (
	"context"
	"errors"
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

// A pair says nothing of why a call fails. Classify knows the errors of its client: what
// the broker will never take is not tried again.
func ExampleOptions_classify() {
	errTooLarge := errors.New("message too large") // of your client
	subscribers := func(string) (message.Subscriber, error) { return nil, errors.ErrUnsupported }
	b := watermill.New(failingPublisher{errTooLarge}, subscribers, watermill.Options{
		Classify: func(err error) error {
			if errors.Is(err, errTooLarge) {
				return fmt.Errorf("%w: %w", broker.ErrRefused, err)
			}
			return err
		},
	}, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	for b.Ready(ctx) != nil {
		continue
	}
	for _, err := range b.Publisher().Publish(ctx, broker.Message{Topic: "service.events", Message: message.NewMessage("e-1", nil)}) {
		fmt.Println("never again:", errors.Is(err, broker.ErrRefused))
	}
	stop()
	fmt.Println(<-ended)
	// Output:
	// never again: true
	// <nil>
}

// A failingPublisher has an error for each message.
type failingPublisher struct{ err error }

// Publish returns the error.
func (f failingPublisher) Publish(string, ...*message.Message) error { return f.err }

// Close does nothing.
func (failingPublisher) Close() error { return nil }
