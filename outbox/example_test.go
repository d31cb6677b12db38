package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// systemClock is the clock of a program.
var systemClock = timer.ClockFunc(time.Now)

// inFiredStore calls an example with a store that has one event in its outbox, and
// prints its error.
func inFiredStore(example func(ctx context.Context, s *sqlite.Store) error) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	s, err := sqlite.Open(ctx, filepath.Join(dir, "timers.db"), sqlite.Options{Durability: sqlite.Relaxed})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	if err := s.Update(ctx, func(tx timer.Tx) error {
		return tx.Emit(ctx, timer.DueTimeReached{Key: timer.Key{TenantID: "acme", ServiceCallID: "order-1"}, ReachedAt: systemClock.Now()})
	}); err != nil {
		fmt.Println(err)
		return
	}
	if err := example(ctx, s); err != nil {
		fmt.Println(err)
	}
}

// eventsOf returns the topic of an event.
func eventsOf(event *message.Message) string {
	return broker.PlainRouting().EventsOf(timer.TenantID(event.Metadata.Get(envelope.HeaderTenantID)))
}

// A printer is a broker that prints messages.
type printer struct{}

// Publish prints messages and acks each.
func (printer) Publish(_ context.Context, messages ...broker.Message) []error {
	for _, m := range messages {
		fmt.Println(m.Topic, m.Metadata.Get(envelope.HeaderType), m.Metadata.Get(envelope.HeaderServiceCallID))
	}
	return make([]error, len(messages))
}

// Events in the outbox are published, and deleted after the ack.
func ExampleForwarder() {
	inFiredStore(func(ctx context.Context, s *sqlite.Store) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		f := outbox.New(s.Outbox(), printer{}, eventsOf, systemClock, slog.New(slog.DiscardHandler), outbox.Options{})
		ended := make(chan error, 1)
		go func() { ended <- f.Run(ctx) }()
		if err := f.Drain(ctx); err != nil { // until all is published
			return err
		}
		stop()
		return <-ended
	})
	// Output: service.events DueTimeReached order-1
}

// Without a broker an event goes to a function, and comes again until that has
// returned nil.
func ExampleHandler() {
	inFiredStore(func(ctx context.Context, s *sqlite.Store) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		f := outbox.New(s.Outbox(), printer{}, eventsOf, systemClock, slog.New(slog.DiscardHandler), outbox.Options{Handlers: []outbox.Handler{{
			MinDelay: time.Millisecond,
			Handle: func(_ context.Context, row outbox.Row) (deleted bool, err error) {
				fmt.Println(row.Message.Metadata.Get(envelope.HeaderServiceCallID), "after failures:", row.Attempts)
				if row.Attempts == 0 {
					return false, errors.New("the payment service is busy")
				}
				return false, nil // then the row is deleted
			},
		}}})
		ended := make(chan error, 1)
		go func() { ended <- f.Run(ctx) }()
		if err := f.Drain(ctx); err != nil {
			return err
		}
		stop()
		return <-ended
	})
	// Output:
	// order-1 after failures: 0
	// order-1 after failures: 1
}
