package rabbitmq_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
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
	awaitReady(t, b)
	publish(t, b, r.topic(), "after")
	for { // the ack of the first, and the answer to the second, may have been lost
		msg := next(t, messages)
		msg.Ack()
		if string(msg.Payload) == "after" {
			return
		}
	}
}
