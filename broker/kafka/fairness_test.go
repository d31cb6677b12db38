package kafka_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/kafka"
)

// A command of a tenant comes before most of the commands on the topic of another tenant.
func TestBacklogOfATenantHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	c := serve(t)
	r := routing()
	r.Commands = strings.TrimSuffix(r.Commands, "commands") + "{tenant}.commands"
	b := ready(t, kafka.Options{URL: c.url(), Routing: r, Partitions: 3})
	body := strings.Repeat("x", 300)
	for range 60 {
		batch := make([]broker.Message, 0, 1000)
		for i := range cap(batch) {
			batch = append(batch, broker.Message{Topic: r.CommandsOf("acme"), Message: message.NewMessage(fmt.Sprint(i), []byte(body))})
		}
		for _, err := range b.Publisher().Publish(t.Context(), batch...) {
			must(t, err)
		}
	}
	publish(t, b, r.CommandsOf("globex"), "first")
	commands, _ := subscribe(t, b, r.Subscription())
	before := 0 // commands of acme since the first of globex
	for {
		msg := <-commands
		msg.Ack()
		switch string(msg.Payload) {
		case "first":
			before = 0
			publish(t, b, r.CommandsOf("globex"), "second")
		case "second":
			if before > 6000 { // what the driver and a subscription hold in memory
				t.Errorf("%d commands of another tenant came first", before)
			}
			return
		default:
			before++
		}
	}
}
