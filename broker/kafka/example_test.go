package kafka_test

import (
	"context"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/kafka"
	"github.com/event-service-agent/timer-service/envelope"
)

// inCluster calls an example with the URL of a cluster in this process, and prints its
// error.
func inCluster(example func(ctx context.Context, url string) error) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	if err := example(context.Background(), "kafka://"+cluster.ListenAddrs()[0]); err != nil {
		fmt.Println(err)
	}
}

// All of a timer is in one partition, since its tenant and service call are the key of
// each record.
func ExampleNew() {
	inCluster(func(ctx context.Context, url string) error {
		b := kafka.New(kafka.Options{URL: url, Partitions: 3}, quiet)
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- b.Run(ctx) }()
		if err := broker.AwaitReady(ctx, b); err != nil {
			return err
		}

		events, err := b.Tail().Subscribe(ctx, b.Routing().EventsOf("acme"))
		if err != nil {
			return err
		}
		event := broker.Message{Topic: b.Routing().EventsOf("acme"), Message: message.NewMessage("e-1", []byte("an event"))}
		event.Metadata.Set(envelope.HeaderTenantID, "acme")
		event.Metadata.Set(envelope.HeaderServiceCallID, "order-1")
		fmt.Println("key:", broker.Key(event.Message))
		if err := broker.Join(b.Publisher().Publish(ctx, event)); err != nil { // it is durable
			return err
		}
		received := <-events
		fmt.Printf("%s from %s\n", received.Payload, received.Metadata.Get(broker.MetaTopic))
		stop()
		return <-ended
	})
	// Output:
	// key: acme.order-1
	// an event from service.events
}

// An administrator sees which topics would be made before they are.
func ExampleBroker_Provision() {
	inCluster(func(ctx context.Context, url string) error {
		b := kafka.New(kafka.Options{URL: url, Partitions: 3}, quiet)
		for _, dry := range []bool{true, false, false} {
			changes, err := b.Provision(ctx, dry)
			if err != nil {
				return err
			}
			for _, c := range changes {
				fmt.Println(dry, c.Object)
			}
		}
		return nil
	})
	// Output:
	// true topic timer.commands
	// true topic service.events
	// false topic timer.commands
	// false topic service.events
}

// A name that Kafka has no topics by is refused before anything connects.
func ExampleOptions_routing() {
	routing := kafka.DefaultRouting()
	routing.Events = "service/events"
	fmt.Println(kafka.New(kafka.Options{Routing: routing}, quiet).Run(context.Background()))
	// Output: routing: events topic: invalid: refused by the broker: topic "service/events" holds more than letters, digits, dots, '_' and '-'
}
