package brokertest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
)

// The functions below are for tests of one driver, in addition to the contract. They fail the test
// if something does not happen within a minute.

// Start runs a broker until the test ends, or until stop is called.
func Start(t testing.TB, b broker.Broker) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(timeout):
			t.Error("Run did not end")
		}
	})
	t.Cleanup(stop)
	return stop
}

// AwaitReady waits until a broker is ready.
func AwaitReady(t testing.TB, b broker.Broker) {
	t.Helper()
	Await(t, "a broker that is ready", func() bool { return b.Ready(t.Context()) == nil })
}

// AwaitNotReady waits until a broker is not ready, for a reason that says all this.
func AwaitNotReady(t testing.TB, b broker.Broker, says ...string) {
	t.Helper()
	Await(t, fmt.Sprintf("a broker that is not ready, and says %q", says), func() bool {
		err := b.Ready(t.Context())
		return err != nil && !slices.ContainsFunc(says, func(s string) bool { return !strings.Contains(err.Error(), s) })
	})
}

// Await polls until something has happened.
func Await(t testing.TB, what string, happened func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond) // some ask a server, and wait long in a bubble
	defer tick.Stop()
	late := time.After(timeout)
	for !happened() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waited %v in vain for %s", timeout, what)
		}
	}
}

// Subscribe subscribes a role until the test ends.
func Subscribe(t testing.TB, b broker.Broker, role, topic string) (<-chan *message.Message, message.Subscriber) {
	t.Helper()
	return (&node{Broker: b}).open(t, role, topic)
}

// Publish publishes messages without a key, one after the other.
func Publish(t testing.TB, b broker.Broker, topic string, bodies ...string) {
	t.Helper()
	for _, body := range bodies {
		(&node{Broker: b}).publish(t, topic, plain(body))
	}
}

// Next returns the next message.
func Next(t testing.TB, messages <-chan *message.Message) *message.Message {
	t.Helper()
	select {
	case msg, ok := <-messages:
		if !ok {
			t.Fatal("the subscription ended by itself")
		}
		return msg
	case <-time.After(timeout):
		t.Fatal("no message came")
	}
	return nil
}

// Expect acks the next message, which must have the body, and returns it.
func Expect(t testing.TB, messages <-chan *message.Message, body string) *message.Message {
	t.Helper()
	msg := Next(t, messages)
	if string(msg.Payload) != body {
		t.Fatalf("got %.200q, want %.20q", msg.Payload, body)
	}
	msg.Ack()
	return msg
}

// Must fails the test if there is an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
