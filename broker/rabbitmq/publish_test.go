package rabbitmq_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/rabbitmq"
	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/internal/proxy"
)

func TestMessageThatNoQueueTakesIsAnErrorThatNamesTheQueue(t *testing.T) {
	t.Parallel()
	r := open(t)
	b := r.ready(r.opt)
	client := r.opt
	client.Client = true
	c := r.ready(client)
	for _, batch := range []int{1, 50} {
		var all []*message.Message
		for i := range batch {
			all = append(all, text(fmt.Sprint(i)))
		}
		err := broker.NewWatermillPublisher(c.Publisher()).Publish(r.topic(), all...)
		if err == nil || errors.Is(err, broker.ErrRefused) || !strings.Contains(err.Error(), r.topic()) {
			t.Errorf("%d messages: %v, want an error that names %s and may pass", batch, err, r.topic())
		}
	}
	messages := subscribe(t, b, "reader", r.topic())
	if err := broker.NewWatermillPublisher(c.Publisher()).Publish(r.topic(), text("routed")); err != nil {
		t.Errorf("with a queue: %v", err)
	}
	expect(t, messages, "routed")
}

func TestQueueThatIsDeletedIsMadeAgain(t *testing.T) {
	t.Parallel()
	r := open(t)
	b := r.ready(r.opt)
	messages := subscribe(t, b, "timer-service", r.topic())
	publish(t, b, r.topic(), "before")
	expect(t, messages, "before")
	if _, err := r.raw.QueueDelete(r.topic(), false, false, false); err != nil {
		t.Fatal(err)
	}
	until(t, "a queue that takes messages", func() bool {
		return broker.NewWatermillPublisher(b.Publisher()).Publish(r.topic(), text("after")) == nil
	})
	expect(t, messages, "after")
}

func TestExchangeThatIsDeletedIsMadeAgain(t *testing.T) {
	t.Parallel()
	r := open(t)
	b := r.ready(r.opt)
	messages := subscribe(t, b, "reader", r.topic())
	publish(t, b, r.topic(), "before")
	expect(t, messages, "before")
	if err := r.raw.ExchangeDelete(r.opt.Exchange, false, false); err != nil {
		t.Fatal(err)
	}
	if err := broker.NewWatermillPublisher(b.Publisher()).Publish(r.topic(), text("lost")); err == nil {
		t.Error("Publish works without an exchange")
	}
	until(t, "an exchange that takes messages", func() bool {
		return broker.NewWatermillPublisher(b.Publisher()).Publish(r.topic(), text("after")) == nil
	})
}

func TestMessageThatAFullQueueDoesNotTakeIsAnError(t *testing.T) {
	t.Parallel()
	r := open(t)
	client := r.opt
	client.Client = true
	r.ready(r.opt)
	b := r.ready(client)
	q, err := r.raw.QueueDeclare("", false, true, true, false, amqp.Table{"x-max-length": 3, "x-overflow": "reject-publish"})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.raw.QueueBind(q.Name, r.topic(), r.opt.Exchange, false, nil); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		publish(t, b, r.topic(), fmt.Sprint(i))
	}
	if err := broker.NewWatermillPublisher(b.Publisher()).Publish(r.topic(), text("too many")); err == nil || errors.Is(err, broker.ErrRefused) || !strings.Contains(err.Error(), "nack") {
		t.Errorf("got %v, want an error about a nack that may pass", err)
	}
	if _, err := r.raw.QueuePurge(q.Name, false); err != nil {
		t.Fatal(err)
	}
	publish(t, b, r.topic(), "no longer full")
}

func TestChannelThatDiesWhilePublishingLosesNothing(t *testing.T) {
	t.Parallel()
	r := open(t)
	b := r.ready(r.opt)
	messages := subscribe(t, b, "reader", r.topic())
	const n = 300
	var work sync.WaitGroup
	work.Go(func() {
		for i := range n {
			for broker.NewWatermillPublisher(b.Publisher()).Publish(r.topic(), text(fmt.Sprint(i)), text(fmt.Sprint(i, " too"))) != nil {
				until(t, "a broker that is ready", func() bool { return b.Ready(t.Context()) == nil })
			}
		}
	})
	seen := make(map[string]bool)
	for len(seen) < 2*n {
		msg := next(t, messages)
		if seen[string(msg.Payload)] = true; len(seen)%100 == 50 {
			rabbitmq.KillChannel(b)
		}
		msg.Ack()
	}
	work.Wait()
}

func TestPublishOfOneCallToManyTopicsMakesTheirQueues(t *testing.T) {
	t.Parallel()
	r := open(t)
	b := r.ready(r.opt)
	var topics []string
	var all []broker.Message
	for i := range 100 {
		topics = append(topics, r.opt.Routing.EventsOf(tenant(i)))
		all = append(all, broker.Message{Topic: topics[i], Message: text(fmt.Sprint(i))})
	}
	for range 2 {
		if err := broker.Join(b.Publisher().Publish(t.Context(), all...)); err != nil {
			t.Fatal(err)
		}
	}
	for i, topic := range topics {
		q, err := r.raw.QueueDeclarePassive(topic, true, false, false, false, nil)
		if err != nil || q.Messages != 2 {
			t.Fatalf("queue %d has %d messages, %v; want 2", i, q.Messages, err)
		}
	}
	all[50].Topic = "not a topic"
	for i, err := range b.Publisher().Publish(t.Context(), all...) {
		if (i == 50) != errors.Is(err, broker.ErrRefused) || i != 50 && err != nil {
			t.Errorf("message %d: %v", i, err)
		}
	}
}

func TestPublishWithoutAConnectionFailsAtOnce(t *testing.T) {
	t.Parallel()
	r := open(t)
	b := r.ready(r.opt)
	publish(t, b, r.topic(), "before")
	r.proxy.Refuse()
	r.proxy.Reset()
	until(t, "a broker that is not ready", func() bool { return b.Ready(t.Context()) != nil })
	if err := broker.NewWatermillPublisher(b.Publisher()).Publish(r.topic(), text("lost")); !errors.Is(err, broker.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	r.proxy.Pass()
	until(t, "a broker that is ready", func() bool { return b.Ready(t.Context()) == nil })
	publish(t, b, r.topic(), "after")
}

func TestServerThatDiesWithoutAWordIsFound(t *testing.T) {
	longtest.Skip(t, "waits until a silent server is given up")
	t.Parallel()
	r := open(t)
	b := r.ready(r.opt)
	messages := subscribe(t, b, "reader", r.topic())
	publish(t, b, r.topic(), "before")
	expect(t, messages, "before")
	r.proxy.Drop(proxy.ToServer, proxy.ToClient)
	if err := broker.NewWatermillPublisher(b.Publisher()).Publish(r.topic(), text("lost")); err == nil {
		t.Error("Publish works without a server")
	}
	r.proxy.Pass()
	until(t, "a broker that is ready", func() bool { return b.Ready(t.Context()) == nil })
	publish(t, b, r.topic(), "after")
	for { // the ack of the first, and the answer to the second, may have been lost
		msg := next(t, messages)
		msg.Ack()
		if string(msg.Payload) == "after" {
			return
		}
	}
}

func TestChannelWhoseCallerIsGoneIsOfUseLater(t *testing.T) {
	t.Parallel()
	r := open(t)
	b := r.ready(r.opt)
	late, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		if err := rabbitmq.OpenChannel(late, b); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
	publish(t, b, r.topic(), "after")
}
