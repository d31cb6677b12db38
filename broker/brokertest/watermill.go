package brokertest

import (
	"fmt"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// Watermill runs Watermill's own tests of publishers and subscribers, twice:
// with messages that have no key, which have no order, and with messages of one
// key for each body, which a single subscriber gets in order.
//
// ContinueAfterErrors runs in its short form: the long one wants each of 300
// redeliveries within 15 seconds, which [broker.RedeliveryDelay] exceeds.
// ConcurrentSubscribeMultipleTopics publishes every id to 20 topics and wants
// 20 messages, of which a broker that knows ids keeps one: it is skipped there,
// and [Run] has a test of many topics.
func Watermill(t *testing.T, f Features, open Open) {
	long := tests.Features{
		ConsumerGroups:                      f.Durable,
		ExactlyOnceDelivery:                 !f.Durable, // nothing is lost but with the process
		GuaranteedOrderWithSingleSubscriber: true,
		Persistent:                          f.Durable,
		RequireSingleInstance:               !f.Durable,
	}
	short := long
	short.ForceShort = true

	type constructor = tests.PubSubConstructor
	for _, test := range []struct {
		name     string
		features tests.Features
		test     func(*testing.T, tests.TestContext, constructor)
	}{
		{"PublishSubscribe", long, tests.TestPublishSubscribe},
		{"ConcurrentSubscribe", long, tests.TestConcurrentSubscribe},
		{"ConcurrentSubscribeMultipleTopics", long, tests.TestConcurrentSubscribeMultipleTopics},
		{"ResendOnError", long, tests.TestResendOnError},
		{"NoAck", long, tests.TestNoAck},
		{"ContinueAfterSubscribeClose", long, tests.TestContinueAfterSubscribeClose},
		{"ConcurrentClose", long, tests.TestConcurrentClose},
		{"ContinueAfterErrors", short, tests.TestContinueAfterErrors},
		{"PublishSubscribeInOrder", long, tests.TestPublishSubscribeInOrder},
		{"PublisherClose", long, tests.TestPublisherClose},
		{"Topic", long, tests.TestTopic},
		{"MessageCtx", long, tests.TestMessageCtx},
		{"SubscribeCtx", long, tests.TestSubscribeCtx},
	} {
		for _, keyed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/keyed=%v", test.name, keyed), func(t *testing.T) {
				t.Parallel()
				if f.Dedupes && test.name == "ConcurrentSubscribeMultipleTopics" {
					t.Skip("it publishes one id to many topics; this broker keeps one of them")
				}
				w := newWorld(t, f, open, false)
				context := w.context(test.features)
				context.Features.GuaranteedOrder = keyed
				test.test(t, context, func(*testing.T) (message.Publisher, message.Subscriber) {
					return w.pubSub("group", keyed)
				})
			})
		}
	}
	t.Run("ConsumerGroups", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, f, open, false)
		tests.TestConsumerGroups(t, w.context(long), func(_ *testing.T, role string) (message.Publisher, message.Subscriber) {
			return w.pubSub(role, true)
		})
	})
}

// context has each test publish to topics of its own.
func (w *world) context(f tests.Features) tests.TestContext {
	f.GenerateTopicFunc = func(c tests.TestContext) string {
		return w.Routing().EventsOf(timer.TenantID(c.TestID)) + "-of-" + c.TestID.String()
	}
	return tests.TestContext{TestID: tests.NewTestID(), Features: f}
}

// pubSub returns both sides of a broker of its own.
func (w *world) pubSub(role string, keyed bool) (message.Publisher, message.Subscriber) {
	n := w.start()
	if keyed {
		return keyingPublisher{n.Publisher()}, n.Subscriber(role)
	}
	return n.Publisher(), n.Subscriber(role)
}

// A keyingPublisher makes the body of a message its key.
type keyingPublisher struct{ message.Publisher }

// Publish publishes messages with a key.
func (p keyingPublisher) Publish(topic string, messages ...*message.Message) error {
	for _, m := range messages {
		m.Metadata.Set(envelope.HeaderTenantID, "acme")
		m.Metadata.Set(envelope.HeaderServiceCallID, string(m.Payload))
	}
	return p.Publisher.Publish(topic, messages...)
}
