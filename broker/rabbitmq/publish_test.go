package rabbitmq_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/rabbitmq"
	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/internal/proxy"
	"github.com/event-service-agent/timer-service/timer"
)

func TestMessageThatNoQueueTakesIsAnErrorThatNamesTheQueue(t *testing.T) {
	t.Parallel()
	r := open(t)
	b := r.ready(r.opt)
	c := r.client()
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
	if err := publishes(c, r.topic(), "routed"); err != nil {
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
		return publishes(b, r.topic(), "after") == nil
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
	if err := publishes(b, r.topic(), "lost"); err == nil {
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

// TestTailWhoseCallerIsGoneLeavesNoQueue gives up while the server declares the queue of a
// tail. A queue that stayed would get messages of the topic until the connection ends.
func TestTailWhoseCallerIsGoneLeavesNoQueue(t *testing.T) {
	t.Parallel()
	r := open(t)
	b := r.ready(r.opt)
	c := r.client()
	late, cancel := context.WithCancel(t.Context())
	cancel()
	tail := b.Tail()
	for range 10 {
		if _, err := tail.Subscribe(late, r.topic()); err == nil {
			t.Log("the server was faster")
		}
	}
	must(t, tail.Close())
	rabbitmq.Answered(b)
	until(t, "no queue that takes messages", func() bool {
		return publishes(c, r.topic(), "for no queue") != nil
	})
}

// newTenants returns a message for each of many tenants without a queue.
func (r *rabbit) newTenants(n int) (all []broker.Message) {
	for range n {
		topic := r.opt.Routing.EventsOf(timer.TenantID("new-" + uuid.NewString()))
		all = append(all, broker.Message{Topic: topic, Message: text("first")})
	}
	return all
}

// TestKnownTenantsDoNotWaitForTheQueuesOfNewOnes lets no queue of a new tenant be declared
// until the known tenant has its messages.
func TestKnownTenantsDoNotWaitForTheQueuesOfNewOnes(t *testing.T) {
	t.Parallel()
	longtest.NotShort(t)
	r := open(t)
	goOn := make(chan struct{})
	b := r.ready(r.opt)
	b.OnQueue(func(queue string) {
		if strings.Contains(queue, ".new-") {
			<-goOn
		}
	})
	messages := subscribe(t, b, "reader", r.topic())
	publish(t, b, r.topic(), "before")
	expect(t, messages, "before")

	all := append(r.newTenants(400), broker.Message{Topic: r.topic(), Message: text("in the same call")})
	results := make(chan []error, 1)
	go func() { results <- b.Publisher().Publish(context.Background(), all...) }()
	expect(t, messages, "in the same call")
	publish(t, b, r.topic(), "in another call")
	expect(t, messages, "in another call")
	for i, err := range <-results {
		if known := i == 400; known != (err == nil) {
			t.Errorf("message %d: %v", i, err)
		}
	}
	close(goOn)
	until(t, "queues of all tenants", func() bool {
		return broker.Join(b.Publisher().Publish(t.Context(), all[:400]...)) == nil
	})
}

// TestMessagesOfACallKeepTheirOrderWhileTheirQueueIsDeclared publishes so many messages at once
// that the queue is declared before all of them were looked at.
func TestMessagesOfACallKeepTheirOrderWhileTheirQueueIsDeclared(t *testing.T) {
	t.Parallel()
	r := open(t)
	b := r.ready(r.opt)
	const n = 10_000
	all := make([]broker.Message, n)
	for i := range all {
		all[i] = broker.Message{Topic: r.topic(), Message: text(strconv.Itoa(i))}
	}
	must(t, broker.Join(b.Publisher().Publish(t.Context(), all...)))
	messages, err := r.raw.Consume(r.topic(), "", true, false, false, false, nil)
	must(t, err)
	for i := range n {
		if m := <-messages; string(m.Body) != strconv.Itoa(i) {
			t.Fatalf("message %d is %s", i, m.Body)
		}
	}
}
