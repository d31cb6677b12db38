package brokertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// timeout is the longest wait for something that must happen.
const timeout = 60 * time.Second

// A world has the server and the broker of a test.
type world struct {
	*testing.T
	features Features
	server   Server
	fake     bool // whether the test runs in a bubble of testing/synctest
	*node         // the broker that most tests need

	newServer Open
}

// A node is a broker that runs.
type node struct {
	broker.Broker
	stop func() // ends Run; can be called again
}

func newWorld(t *testing.T, f Features, open Open, fake bool) *world {
	w := &world{T: t, features: f, server: open(t), fake: fake, newServer: open}
	w.node = w.start()
	return w
}

// start runs one more broker until the test ends, and waits until it is ready. Without
// [Features.Durable] it returns the only broker.
func (w *world) start() *node {
	if w.node != nil && !w.features.Durable {
		return w.node
	}
	n := w.run()
	AwaitReady(w, n)
	return n
}

// run runs one more broker until the test ends.
func (w *world) run() *node {
	b := w.server.Broker()
	return &node{Broker: b, stop: Start(w, b)}
}

// close closes a subscriber.
func (w *world) close(s message.Subscriber) {
	w.Helper()
	if err := s.Close(); err != nil {
		w.Errorf("Close: %v", err)
	}
}

// topic returns a topic that was never used before.
func (w *world) topic() string {
	tenant := timer.TenantID(strings.ReplaceAll(uuid.NewString(), "-", ""))
	return w.Routing().EventsOf(tenant)
}

// publish publishes messages, which must work.
func (n *node) publish(t testing.TB, topic string, messages ...*message.Message) {
	t.Helper()
	if err := broker.Join(n.send(topic, messages...)); err != nil {
		t.Fatalf("publish to %s: %v", topic, err)
	}
}

// supply publishes messages until the broker has taken all. A busy server does not confirm
// some of them in time, so that these may come twice. And a driver gives up soon on
// messages to a topic that has failed a moment ago.
func (n *node) supply(w *world, topic string, messages ...*message.Message) {
	for late := time.Now().Add(timeout); len(messages) > 0; {
		var failed []*message.Message
		for i, err := range n.send(topic, messages...) {
			if err == nil {
				continue
			}
			if failed = append(failed, messages[i].Copy()); w.fake || errors.Is(err, broker.ErrRefused) || time.Now().After(late) {
				w.Errorf("publish to %s: %v", topic, err)
				return
			}
		}
		messages = failed
	}
}

// subscribe subscribes a role until the test ends.
func (n *node) subscribe(t testing.TB, role, topic string) <-chan *message.Message {
	t.Helper()
	messages, _ := n.open(t, role, topic)
	return messages
}

// send publishes messages and returns the result of each.
func (n *node) send(topic string, messages ...*message.Message) []error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return n.Publisher().Publish(ctx, to(topic, messages...)...)
}

// fewer returns n, or short with -short.
func fewer(n, short int) int {
	if testing.Short() {
		return short
	}
	return n
}

// to addresses messages to a topic.
func to(topic string, messages ...*message.Message) []broker.Message {
	all := make([]broker.Message, len(messages))
	for i, m := range messages {
		all[i] = broker.Message{Topic: topic, Message: m}
	}
	return all
}

// know makes a role known to the broker before something is published for it, if
// the driver asks for that.
func (n *node) know(t testing.TB, role, topic string) {
	t.Helper()
	if s, ok := n.Subscriber(role).(message.SubscribeInitializer); ok {
		if err := s.SubscribeInitialize(topic); err != nil {
			t.Fatalf("make %s known to %s: %v", role, topic, err)
		}
	}
}

// open subscribes a role, and returns its subscriber too.
func (n *node) open(t testing.TB, role, topic string) (<-chan *message.Message, message.Subscriber) {
	t.Helper()
	s := n.Subscriber(role)
	t.Cleanup(func() { _ = s.Close() })
	messages, err := s.Subscribe(context.Background(), topic)
	if err != nil {
		t.Fatalf("subscribe to %s: %v", topic, err)
	}
	return messages, s
}

// none fails the test if a message comes that should not.
func none(t testing.TB, messages <-chan *message.Message, within time.Duration) {
	t.Helper()
	select {
	case msg, ok := <-messages:
		if ok {
			t.Fatalf("message %s came, %q, delivery %s", msg.UUID, msg.Payload, msg.Metadata.Get(broker.MetaDelivery))
		}
		t.Fatal("the subscription ended by itself")
	case <-time.After(within):
	}
}

// drain acks messages until n different ones came, and returns how often each
// did, by payload.
func drain(t testing.TB, messages <-chan *message.Message, n int) map[string]int {
	t.Helper()
	seen := make(map[string]int)
	for len(seen) < n {
		msg := Next(t, messages)
		seen[string(msg.Payload)]++
		msg.Ack()
	}
	return seen
}

// acking acks all messages until the subscription ends.
func acking(messages <-chan *message.Message) {
	for msg := range messages {
		msg.Ack()
	}
}

// plain returns a message without a key.
func plain(body string) *message.Message { return message.NewMessage(uuid.NewString(), []byte(body)) }

// keyed returns a message of a key of the tenant "acme".
func keyed(call, body string) *message.Message {
	m := plain(body)
	m.Metadata.Set(envelope.HeaderTenantID, "acme")
	m.Metadata.Set(envelope.HeaderServiceCallID, call)
	return m
}

// many returns messages with the numbers from 0, each of a key of its own.
func many(n int) []*message.Message {
	all := make([]*message.Message, n)
	for i := range all {
		all[i] = keyed(fmt.Sprint("call-", i), fmt.Sprint(i))
	}
	return all
}
