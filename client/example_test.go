package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/timer"
)

func ExampleClient_Schedule() {
	c := client.New(publisher, broker.NATSRouting(), client.Options{})

	_, err := c.Schedule(context.Background(), client.Timer{
		TenantID: "acme", ServiceCallID: "order-1", After: 3 * time.Hour,
		CorrelationID: "req-7", Data: json.RawMessage(`{"attempt":3}`),
	})
	if err != nil {
		fmt.Println(err)
	}
	_, err = c.Schedule(context.Background(), client.Timer{TenantID: "acme"})
	fmt.Println(err)
	// Output:
	// timer.commands: ScheduleTimer of acme.order-1, data {"attempt":3}
	// invalid: serviceCallId is empty
}

func ExampleClient_ScheduleMany() {
	c := client.New(publisher, broker.KafkaRouting(), client.Options{})

	reminders := make([]client.Timer, 1200)
	for i := range reminders {
		reminders[i] = client.Timer{TenantID: "acme", ServiceCallID: timer.ServiceCallID(fmt.Sprint("reminder-", i)), After: 24 * time.Hour}
	}
	if err := c.ScheduleMany(context.Background(), reminders...); err != nil {
		fmt.Println(err)
	}
	// Output:
	// timer.commands: ScheduleTimers, 500 of acme
	// timer.commands: ScheduleTimers, 500 of acme
	// timer.commands: ScheduleTimers, 200 of acme
}

func ExampleOnDue() {
	pair := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, watermill.NopLogger{}) // your publisher and subscriber
	router, _ := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	poison, _ := middleware.PoisonQueueWithFilter(pair, "orders.poison", client.IsInvalid)
	router.AddMiddleware(poison, middleware.Retry{MaxRetries: 2, InitialInterval: 100 * time.Millisecond}.Middleware)

	react := func(_ context.Context, e timer.DueTimeReached) error {
		fmt.Printf("%s is due, %v late, data %s\n", e.Key, e.Lateness(), e.Data)
		return nil
	}
	client.OnDue(router, pair, react, client.OnDueOptions{Topic: broker.PlainRouting().EventsOf("acme")})

	go fire(pair, router)
	_ = router.Run(context.Background())
	// Output:
	// acme.order-1 is due, 2ms late, data {"attempt":3}
}
