package gochannel_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/gochannel"
)

// start runs a broker until the test ends.
func start(t *testing.T, opt gochannel.Options) *gochannel.Broker {
	t.Helper()
	b := gochannel.New(opt, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	synctest.Wait()
	return b
}

func subscribe(t *testing.T, s message.Subscriber) <-chan *message.Message {
	t.Helper()
	messages, err := s.Subscribe(context.Background(), "topic")
	must(t, err)
	return messages
}

func publish(b *gochannel.Broker, from, to int) error {
	var all []*message.Message
	for i := from; i < to; i++ {
		all = append(all, message.NewMessage(fmt.Sprint(i), nil))
	}
	return broker.NewWatermillPublisher(b.Publisher()).Publish("topic", all...)
}

func TestPublishWaitsForConsumersThatAreBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, gochannel.Options{Pending: 10})
		messages := subscribe(t, b.Subscriber("slow"))
		began := time.Now()
		if err := publish(b, 0, 10); err != nil || !time.Now().Equal(began) {
			t.Fatalf("the first ten: %v after %v", err, time.Since(began))
		}
		if err := publish(b, 10, 11); !errors.Is(err, gochannel.ErrFull) || !errors.Is(err, broker.ErrUnavailable) || time.Since(began) != 20*time.Second {
			t.Errorf("one more: %v after %v, want ErrFull after 20s", err, time.Since(began))
		}
		began = time.Now()
		time.AfterFunc(3*time.Second, func() { (<-messages).Ack() })
		if err := publish(b, 11, 12); err != nil || time.Since(began) != 3*time.Second {
			t.Errorf("after an ack: %v after %v, want nil after 3s", err, time.Since(began))
		}
	})
}

func TestNothingIsKeptForARoleThatNeverSubscribed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, gochannel.Options{})
		must(t, publish(b, 0, 5))
		messages := subscribe(t, b.Subscriber("late"))
		must(t, publish(b, 5, 6))
		if msg := <-messages; msg.UUID != "5" {
			t.Errorf("got %s", msg.UUID)
		}
	})
}

func TestTheLastCloseDiscards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, gochannel.Options{Pending: 5})
		first, second := b.Subscriber("role"), b.Subscriber("role")
		messages := subscribe(t, first)
		must(t, publish(b, 0, 5))
		for range 2 {
			<-messages // and it is never acked
		}
		others := subscribe(t, second)
		if err := first.Close(); err != nil {
			t.Error(err)
		}
		seen := make(map[string]bool)
		for range 5 { // those in flight too
			msg := <-others
			seen[msg.UUID] = true
		}
		if len(seen) != 5 {
			t.Errorf("another subscriber of the role got %v", seen)
		}
		if err := second.Close(); err != nil {
			t.Error(err)
		}
		again := subscribe(t, b.Subscriber("role"))
		if err := publish(b, 5, 6); err != nil { // there is room: nothing is counted any more
			t.Fatal(err)
		}
		if msg := <-again; msg.UUID != "5" {
			t.Errorf("got %s", msg.UUID)
		}
	})
}

func TestASlowTailDelaysNoPublisher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, gochannel.Options{})
		tail := subscribe(t, b.Tail())
		began := time.Now()
		if err := publish(b, 0, 20_000); err != nil || !time.Now().Equal(began) {
			t.Errorf("publish: %v after %v", err, time.Since(began))
		}
		if msg := <-tail; msg.UUID != "0" {
			t.Errorf("got %s", msg.UUID)
		}
	})
}

func TestRoutingThatCanNotWorkEndsRun(t *testing.T) {
	t.Parallel()
	r := gochannel.DefaultRouting()
	if err := r.Validate(); err != nil {
		t.Errorf("the default: %v", err)
	}
	r.DeadLetters = r.Commands
	if err := gochannel.New(gochannel.Options{Routing: r}, slog.New(slog.DiscardHandler)).Run(t.Context()); err == nil {
		t.Error("Run returns no error")
	}
}
