package client_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// publisher stands for that of a program: it prints its messages.
var publisher message.Publisher = printer{}

type printer struct{}

func (printer) Publish(topic string, messages ...*message.Message) error {
	for _, m := range messages {
		decoded, err := envelope.Decode(m.Payload)
		if err != nil {
			return err
		}
		fmt.Print(topic, ": ", decoded.Type)
		switch c := decoded.Payload.(type) {
		case timer.ScheduleTimer:
			fmt.Print(" of ", c.Key)
			if c.Data != "" {
				fmt.Print(", data ", c.Data)
			}
		case timer.ScheduleTimers:
			fmt.Printf(", %d of %s", len(c.Commands), c.TenantID)
		}
		fmt.Println()
	}
	return nil
}

func (printer) Close() error { return nil }

// fire publishes an event, as the service does, and ends the example when it is acked.
func fire(pub message.Publisher, router *message.Router) {
	<-router.Running()
	due := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	event := timer.DueTimeReached{
		Key: timer.Key{TenantID: "acme", ServiceCallID: "order-1"}, DueAt: due, ReachedAt: due.Add(2 * time.Millisecond), Data: `{"attempt":3}`,
	}
	err := pub.Publish("service.events", message.NewMessage(envelope.EventID(event), envelope.Reached(event)))
	if err = errors.Join(err, router.Close()); err != nil {
		fmt.Println(err)
	}
}
