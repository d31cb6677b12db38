package broker_test

import (
	"context"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
)

// Each tenant has a commands topic of its own, so that the broker can keep tenants
// apart.
func ExampleRouting() {
	r := broker.NATSRouting()
	r.Commands = "svc.{tenant}.timer"

	fmt.Println(r.Validate())
	fmt.Println(r.CommandsOf("acme"), r.EventsOf("acme"))
	fmt.Println(r.Subscription())
	fmt.Println(r.TenantOf("svc.acme.timer"))
	// Output:
	// <nil>
	// svc.acme.timer svc.acme.serviceCall
	// svc.*.timer
	// acme true
}

func ExampleRouting_Validate() {
	r := broker.KafkaRouting()
	r.Events = r.Commands
	fmt.Println(r.Validate())
	// Output:
	// events topic "timer.commands" lies inside the commands topic "timer.commands", so the service would consume its own messages; rename one
}

// pickyPublisher refuses messages without a body.
type pickyPublisher struct{}

func (pickyPublisher) Publish(_ context.Context, messages ...broker.Message) []error {
	results := make([]error, len(messages))
	for i, m := range messages {
		if len(m.Payload) == 0 {
			results[i] = fmt.Errorf("%w: it is empty", broker.ErrRefused)
		}
	}
	return results
}

// Each message has a result of its own. Behind Watermill's interface they are one
// error.
func ExamplePublisher() {
	full, empty := message.NewMessage("1", []byte("{}")), message.NewMessage("2", nil)

	for _, err := range (pickyPublisher{}).Publish(context.Background(), broker.Message{Topic: "a", Message: full}, broker.Message{Topic: "a", Message: empty}) {
		fmt.Println(err)
	}
	fmt.Println(broker.NewWatermillPublisher(pickyPublisher{}).Publish("a", full, empty))
	// Output:
	// <nil>
	// invalid: refused by the broker: it is empty
	// publish to a: 1 of 2 messages: invalid: refused by the broker: it is empty
}
