package nats_test

import (
	"context"
	"fmt"
	"os"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/broker/nats/embedded"
)

// inServer calls an example with a server in this process, and prints its error.
func inServer(example func(ctx context.Context, server *embedded.Server) error) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	server, err := embedded.Start(embedded.Options{StoreDir: dir, DontListen: true, SyncLazily: true}, quiet)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Shutdown()
	if err := example(context.Background(), server); err != nil {
		fmt.Println(err)
	}
}

// A broker on a server in this process; for one elsewhere set URL instead of Server.
// A message that a handler has not acked comes again.
func ExampleNew() {
	inServer(func(ctx context.Context, server *embedded.Server) error {
		b := nats.New(nats.Options{Server: server}, quiet)
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- b.Run(ctx) }()
		if err := broker.AwaitReady(ctx, b); err != nil {
			return err
		}

		messages, err := b.Subscriber("orders").Subscribe(ctx, b.Routing().EventsOf("acme"))
		if err != nil {
			return err
		}
		event := broker.Message{Topic: b.Routing().EventsOf("acme"), Message: message.NewMessage("e-1", []byte("an event"))}
		if err := broker.Join(b.Publisher().Publish(ctx, event)); err != nil { // it is durable
			return err
		}
		received := <-messages
		fmt.Printf("%s from %s, delivery %d\n", received.Payload, received.Metadata.Get(broker.MetaTopic), broker.Deliveries(received))
		received.Ack()
		stop()
		return <-ended
	})
	// Output: an event from svc.acme.serviceCall, delivery 1
}
