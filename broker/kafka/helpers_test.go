package kafka_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/kafka"
)

// run runs a broker until the test ends, or until stop is called.
func run(t testing.TB, opt kafka.Options) (_ *kafka.Broker, stop func()) {
	t.Helper()
	b := kafka.New(opt, quiet)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return b, stop
}

// until polls until something has happened.
func until(t testing.TB, what string, happened func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for !happened() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("timed out waiting for %s", what)
		}
	}
}

// ready runs a broker until the test ends, and waits until it is ready.
func ready(t testing.TB, opt kafka.Options) *kafka.Broker {
	t.Helper()
	b, _ := start(t, opt)
	return b
}

// start runs a broker that is ready until the test ends, or until stop is called.
func start(t testing.TB, opt kafka.Options) (_ *kafka.Broker, stop func()) {
	t.Helper()
	b, stop := run(t, opt)
	until(t, "a broker that is ready", func() bool { return b.Ready(t.Context()) == nil })
	return b, stop
}

// subscribe subscribes the role "reader" until the test ends.
func subscribe(t testing.TB, b *kafka.Broker, topic string) (<-chan *message.Message, message.Subscriber) {
	t.Helper()
	s := b.Subscriber("reader")
	t.Cleanup(func() { _ = s.Close() })
	messages, err := s.Subscribe(context.Background(), topic)
	if err != nil {
		t.Fatal(err)
	}
	return messages, s
}

// publish publishes messages without a key, one after the other.
func publish(t testing.TB, b *kafka.Broker, topic string, bodies ...string) {
	t.Helper()
	for _, body := range bodies {
		if err := broker.NewWatermillPublisher(b.Publisher()).Publish(topic, message.NewMessage(uuid.NewString(), []byte(body))); err != nil {
			t.Fatal(err)
		}
	}
}

// expect acks the next message, which must have the body.
func expect(t testing.TB, messages <-chan *message.Message, body string) *message.Message {
	t.Helper()
	select {
	case msg, ok := <-messages:
		if !ok || string(msg.Payload) != body {
			t.Fatalf("got %.200v, want %.20q", msg, body)
		}
		msg.Ack()
		return msg
	case <-time.After(time.Minute):
		t.Fatalf("timed out waiting for %.20q", body)
	}
	return nil
}
