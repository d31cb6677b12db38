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

// All messages of a timer are in one partition, since its tenant and service call are the
// key of each record.
func ExampleNew() {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()

	b := kafka.New(kafka.Options{URL: "kafka://" + cluster.ListenAddrs()[0], Partitions: 3}, quiet)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	if err := broker.AwaitReady(ctx, b); err != nil {
		fmt.Println(err)
	}

	events, err := b.Tail().Subscribe(ctx, b.Routing().EventsOf("acme"))
	if err != nil {
		fmt.Println(err)
	}
	event := broker.Message{Topic: b.Routing().EventsOf("acme"), Message: message.NewMessage("e-1", []byte("an event"))}
	event.Metadata.Set(envelope.HeaderTenantID, "acme")
	event.Metadata.Set(envelope.HeaderServiceCallID, "order-1")
	fmt.Println("key:", broker.Key(event.Message))
	if err := broker.Join(b.Publisher().Publish(ctx, event)); err != nil {
		fmt.Println(err)
	}
	received := <-events // the event is durable
	fmt.Printf("%s from %s\n", received.Payload, received.Metadata.Get(broker.MetaTopic))
	stop()
	fmt.Println(<-ended)
	// Output:
	// key: acme.order-1
	// an event from service.events
	// <nil>
}
