package brokertest

import (
	"context"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// Watermill runs Watermill's own tests of publishers and subscribers, except the tests that
// want messages in order or one at a time.
//
// ContinueAfterErrors runs in its short form: the long one wants each of 300
// redeliveries within 15 seconds, which [broker.RedeliveryDelay] exceeds.
// ConcurrentSubscribeMultipleTopics publishes every id to 20 topics and wants
// 20 messages, of which a broker that knows ids keeps one: it is skipped there,
// and [Run] has a test of many topics.
func Watermill(t *testing.T, f Features, open Open) {
	long := tests.Features{
		ConsumerGroups:        f.Durable,
		ExactlyOnceDelivery:   !f.Durable, // nothing is lost but with the process
		Persistent:            f.Durable,
		RequireSingleInstance: !f.Durable,
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
		{"ContinueAfterSubscribeClose", long, tests.TestContinueAfterSubscribeClose},
		{"ConcurrentClose", long, tests.TestConcurrentClose},
		{"ContinueAfterErrors", short, tests.TestContinueAfterErrors},
		{"PublisherClose", long, tests.TestPublisherClose},
		{"Topic", long, tests.TestTopic},
		{"MessageCtx", long, tests.TestMessageCtx},
		{"SubscribeCtx", long, tests.TestSubscribeCtx},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if f.Dedupes && test.name == "ConcurrentSubscribeMultipleTopics" {
				t.Skip("it publishes one id to many topics; this broker keeps one of them")
			}
			w := newWorld(t, f, open, false)
			test.test(t, w.context(test.features), func(*testing.T) (message.Publisher, message.Subscriber) {
				pub, sub := w.pubSub("group")
				if !f.Durable && test.name == "ContinueAfterErrors" {
					sub = &endingSubscriber{Subscriber: sub}
				}
				return pub, sub
			})
		})
	}
	t.Run("ConsumerGroups", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, f, open, false)
		tests.TestConsumerGroups(t, w.context(long), func(_ *testing.T, role string) (message.Publisher, message.Subscriber) {
			return w.pubSub(role)
		})
	})
}

// context lets each test publish to topics of its own.
func (w *world) context(f tests.Features) tests.TestContext {
	f.GenerateTopicFunc = func(c tests.TestContext) string {
		return w.Routing().EventsOf(timer.TenantID(c.TestID)) + "-of-" + c.TestID.String()
	}
	return tests.TestContext{TestID: tests.NewTestID(), Features: f}
}

// pubSub returns both sides of a broker of its own.
func (w *world) pubSub(role string) (message.Publisher, message.Subscriber) {
	n := w.start()
	return keyingPublisher{broker.NewWatermillPublisher(n.Publisher())}, n.Subscriber(role)
}

// An endingSubscriber ends its subscription with the next one. ContinueAfterErrors
// subscribes again and no longer reads the first subscription, which has a
// message for its reader for as long as it is open.
type endingSubscriber struct {
	message.Subscriber
	end context.CancelFunc
}

// SubscribeInitialize does what that of the subscriber does, if it has one.
func (s *endingSubscriber) SubscribeInitialize(topic string) error {
	if i, ok := s.Subscriber.(message.SubscribeInitializer); ok {
		return i.SubscribeInitialize(topic)
	}
	return nil
}

// Subscribe ends the last subscription and begins another one.
func (s *endingSubscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	if s.end != nil {
		s.end()
	}
	ctx, s.end = context.WithCancel(ctx)
	return s.Subscriber.Subscribe(ctx, topic)
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
