package handlers_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/gochannel"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// handle publishes commands to a broker in memory, and runs handlers on an empty store
// until they have handled as many.
func handle(opt handlers.Options, commands ...*message.Message) (*sqlite.Store, *gochannel.Broker, func(), error) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		return nil, nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	log := slog.New(slog.DiscardHandler)
	s, err := sqlite.Open(ctx, filepath.Join(dir, "timers.db"), sqlite.Options{Durability: sqlite.Relaxed})
	if err != nil {
		cancel()
		return nil, nil, nil, err
	}
	b := gochannel.New(gochannel.Options{}, log)

	handled := make(chan struct{}, len(commands))
	count := opt.Handled
	opt.Handled = func(r handlers.Result) { count(r); handled <- struct{}{} }
	h := handlers.New(store.NewBatch(s, store.BatchOptions{}), b.Routing(), b.Subscriber("timer-service"), b.Publisher(), timer.ClockFunc(time.Now), log, opt)

	ended := make(chan error, 2)
	go func() { ended <- b.Run(ctx) }()
	go func() { ended <- h.Run(ctx) }()
	stop := func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				fmt.Println(err)
			}
		}
		_ = s.Close()
		_ = os.RemoveAll(dir)
	}
	if err := broker.AwaitReady(ctx, b); err != nil {
		return s, b, stop, err
	}
	<-h.Running()
	for _, c := range commands {
		if err := broker.Join(b.Publisher().Publish(ctx, broker.Message{Topic: b.Routing().Commands, Message: c})); err != nil {
			return s, b, stop, err
		}
		<-handled
	}
	return s, b, stop, nil
}

// A command that a broker delivers is in the store when it is acked.
func ExampleHandlers() {
	key := timer.Key{TenantID: "acme", ServiceCallID: "order-1"}
	now := time.Now()
	body := envelope.Schedule(timer.ScheduleTimer{
		Key: key, DueAt: now.Add(time.Hour), Version: timer.Version{TimestampMS: now.UnixMilli(), CommandID: "c-1"},
	})
	s, _, stop, err := handle(handlers.Options{Handled: func(r handlers.Result) { fmt.Println(r.Type, r.Outcome) }}, message.NewMessage("c-1", body))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	entry, err := s.Get(context.Background(), key)
	fmt.Println(entry.State, err)
	// Output:
	// ScheduleTimer scheduled
	// Scheduled <nil>
}

// What is no command goes to the dead letters, and says why. A middleware of the host
// sees each message.
func ExampleOptions_middleware() {
	opt := handlers.Options{
		Handled: func(r handlers.Result) { fmt.Println(r.Type, r.Outcome) },
		Middleware: []message.HandlerMiddleware{func(next message.HandlerFunc) message.HandlerFunc {
			return func(msg *message.Message) ([]*message.Message, error) {
				fmt.Println("the host sees", msg.UUID)
				return next(msg)
			}
		}},
	}
	_, b, stop, err := handle(opt, message.NewMessage("m-1", []byte("not JSON")))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	if err := b.VisitDeadLetters(context.Background(), "", func(dead *message.Message) (remove bool, err error) {
		fmt.Printf("%s: %s\n", dead.Payload, dead.Metadata.Get(envelope.HeaderDeadLetterReason))
		return false, nil
	}); err != nil {
		fmt.Println(err)
	}
	// Output:
	// the host sees m-1
	// other invalid
	// not JSON: not_json
}
