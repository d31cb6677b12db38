package deadletter_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/deadletter"
	"github.com/event-service-agent/timer-service/broker/gochannel"
	"github.com/event-service-agent/timer-service/timer"
)

// withDeadLetter calls use with a broker that has one dead letter, of a command that
// was over its quota.
func withDeadLetter(use func(ctx context.Context, b broker.Broker)) {
	b := gochannel.New(gochannel.Options{}, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	for b.Ready(ctx) != nil {
		continue
	}
	dead := message.NewMessage("dead-1", []byte(`{"id":"c-1","type":"CancelTimer"}`))
	dead.Metadata = message.Metadata{
		"tenantId": "acme", "messageId": "dead-1", "deadLetterReason": "over_quota", "deadLetterDetail": "too many timers wait",
		"deadLetterTopic": "timer.commands", "deadLetterOriginalId": "c-1",
	}
	for _, err := range b.Publisher().Publish(ctx, broker.Message{Topic: b.Routing().DeadLettersOf("acme"), Message: dead}) {
		if err != nil {
			fmt.Println(err)
		}
	}
	use(ctx, b)
	cancel()
	<-ended
}

func ExampleService_List() {
	withDeadLetter(func(ctx context.Context, b broker.Broker) {
		sum, err := deadletter.New(b).List(ctx, deadletter.Filter{Tenant: "acme"}, func(m deadletter.Message) error {
			fmt.Println(m.ID, m.Reason, "-", m.Detail)
			return nil
		})
		fmt.Println(sum.Done, err)
	})
	// Output:
	// dead-1 over_quota - too many timers wait
	// 1 <nil>
}

// Commands that can be handled now are published to the topic of their tenant again.
func ExampleService_Replay() {
	withDeadLetter(func(ctx context.Context, b broker.Broker) {
		commands, err := b.Tail().Subscribe(ctx, b.Routing().Commands)
		if err != nil {
			fmt.Println(err)
		}
		overQuota := deadletter.Filter{Reasons: []timer.Reason{timer.ReasonOverQuota}}
		sum, err := deadletter.New(b).Replay(ctx, overQuota, func(r deadletter.Result) {
			fmt.Println(r.Message.ID, r.Did, "to", r.Topic)
		})
		fmt.Println(sum.Done, err)
		fmt.Printf("%s\n", (<-commands).Payload)
	})
	// Output:
	// dead-1 replayed to timer.commands
	// 1 <nil>
	// {"id":"c-1","type":"CancelTimer"}
}
