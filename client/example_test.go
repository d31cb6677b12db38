package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/components/cqrs"
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

func ExampleClient_Cancel() {
	c := client.New(publisher, broker.NATSRouting(), client.Options{})

	if _, err := c.Cancel(context.Background(), timer.Key{TenantID: "acme", ServiceCallID: "order-1"}); err != nil {
		fmt.Println(err)
	}
	// Output:
	// timer.commands: CancelTimer of acme.order-1
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

// A handler says what is wrong with a request, or that it can be tried again: that
// schedules the same timer, since the key is the same.
func ExampleClient_Schedule_httpHandler() {
	c := client.New(publisher, broker.NATSRouting(), client.Options{})

	remind := func(w http.ResponseWriter, r *http.Request) {
		_, err := c.Schedule(r.Context(), client.Timer{
			TenantID: "acme", ServiceCallID: timer.ServiceCallID("remind:" + r.PathValue("order")), After: time.Hour,
			CorrelationID: r.Header.Get("X-Request-Id"),
		})
		switch {
		case client.IsInvalid(err):
			http.Error(w, err.Error(), http.StatusBadRequest)
		case err != nil:
			http.Error(w, "try again", http.StatusServiceUnavailable)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}

	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders/{order}/reminder", remind)
	for _, order := range []string{"order-1", "order%201"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/orders/"+order+"/reminder", nil))
		fmt.Println(strings.TrimSpace(fmt.Sprint(w.Code, " ", w.Body)))
	}
	// Output:
	// timer.commands: ScheduleTimer of acme.remind:order-1
	// 202
	// 400 invalid: serviceCallId "remind:order 1" has a character outside A-Z a-z 0-9 _ . : -
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

// With a table of the ids that were handled, in the transaction that does the work, an
// event that comes again changes nothing, however late.
func ExampleOnDueOptions_once() {
	db := newDatabase()
	handle := func(ctx context.Context, e timer.DueTimeReached) error {
		return txOf(ctx).exec("start order", string(e.ServiceCallID))
	}
	opt := client.OnDueOptions{
		Topic: "service.events",
		Once: func(ctx context.Context, id string, handle func(ctx context.Context) error) error {
			return db.transact(ctx, func(ctx context.Context) error {
				if err := txOf(ctx).exec("insert event", id); errors.Is(err, errDuplicate) {
					return nil // handled before: roll back, and ack
				} else if err != nil {
					return err
				}
				return handle(ctx)
			})
		},
	}

	for range 2 {
		err := opt.Once(context.Background(), "01b8dac5", func(ctx context.Context) error {
			return handle(ctx, timer.DueTimeReached{Key: timer.Key{TenantID: "acme", ServiceCallID: "order-1"}})
		})
		fmt.Println(err)
	}
	fmt.Println(db.committed)
	// Output:
	// <nil>
	// <nil>
	// [insert event 01b8dac5 start order order-1]
}

func ExampleMarshaler() {
	pair := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, watermill.NopLogger{})
	router, _ := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	routing := broker.PlainRouting()

	commands, _ := cqrs.NewCommandBusWithConfig(publisher, cqrs.CommandBusConfig{
		GeneratePublishTopic: func(cqrs.CommandBusGeneratePublishTopicParams) (string, error) {
			return routing.CommandsOf("acme"), nil
		},
		Marshaler: client.Marshaler{},
	})
	events, _ := cqrs.NewEventProcessorWithConfig(router, cqrs.EventProcessorConfig{
		GenerateSubscribeTopic: func(cqrs.EventProcessorGenerateSubscribeTopicParams) (string, error) {
			return routing.EventsOf("acme"), nil
		},
		SubscriberConstructor: func(cqrs.EventProcessorSubscriberConstructorParams) (message.Subscriber, error) { return pair, nil },
		Marshaler:             client.Marshaler{},
	})
	_ = events.AddHandlers(cqrs.NewEventHandler("orders", func(_ context.Context, e *timer.DueTimeReached) error {
		fmt.Println(e.ServiceCallID, "is due")
		return nil
	}))

	_ = commands.Send(context.Background(), client.Timer{TenantID: "acme", ServiceCallID: "order-1", After: time.Minute})
	go fire(pair, router)
	_ = router.Run(context.Background())
	// Output:
	// timer.commands: ScheduleTimer of acme.order-1
	// order-1 is due
}
