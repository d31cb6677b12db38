package kafka_test

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker/brokertest"
	"github.com/event-service-agent/timer-service/broker/kafka"
)

var (
	until   = brokertest.Await
	publish = brokertest.Publish
	expect  = brokertest.Expect
)

// run runs a broker until the test ends, or until stop is called.
func run(t testing.TB, opt kafka.Options) (b *kafka.Broker, stop func()) {
	t.Helper()
	b = kafka.New(opt, quiet)
	return b, brokertest.Start(t, b)
}

// start runs a broker like run, and waits until it is ready.
func start(t testing.TB, opt kafka.Options) (b *kafka.Broker, stop func()) {
	t.Helper()
	b, stop = run(t, opt)
	brokertest.AwaitReady(t, b)
	return b, stop
}

// ready runs a broker until the test ends, and waits until it is ready.
func ready(t testing.TB, opt kafka.Options) *kafka.Broker {
	t.Helper()
	b, _ := start(t, opt)
	return b
}

// subscribe subscribes the role "reader" until the test ends.
func subscribe(t testing.TB, b *kafka.Broker, topic string) (<-chan *message.Message, message.Subscriber) {
	t.Helper()
	return brokertest.Subscribe(t, b, "reader", topic)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
