package rabbitmq_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/internal/longtest"

	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/timer"
)

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
