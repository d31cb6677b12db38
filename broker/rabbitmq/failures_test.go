package rabbitmq_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/rabbitmq"
)

// A failure of one queue fails no message of another queue. Each test has a queue that fails
// among the queues of other tenants.

// others are tenants whose queues work, with a number of messages each.
const others, each = 20, 10

// queue declares a queue and binds it.
func (r *rabbit) queue(topic string, args amqp.Table) {
	r.Helper()
	if _, err := r.raw.QueueDeclare(topic, true, false, false, false, args); err != nil {
		r.Fatal(err)
	}
	r.mu.Lock()
	r.declared[topic] = true
	r.mu.Unlock()
	must(r, r.raw.QueueBind(topic, topic, r.opt.Exchange, false, nil))
}

// events returns messages of all tenants in turns, of "failing" the most.
func (r *rabbit) events() (all []broker.Message) {
	for i := range each {
		for j := range others {
			all = append(all, broker.Message{Topic: r.opt.Routing.EventsOf(tenant(j)), Message: text(fmt.Sprint(i))})
		}
		all = append(all, broker.Message{Topic: r.failing(), Message: text(fmt.Sprint(i))})
	}
	return all
}

func (r *rabbit) failing() string { return r.opt.Routing.EventsOf("failing") }

// take removes all messages of a queue and counts each.
func (r *rabbit) take(topic string, counts map[string]int) {
	r.Helper()
	for {
		in, ok, err := r.raw.Get(topic, true)
		must(r, err)
		if !ok {
			return
		}
		counts[topic+" "+in.MessageId]++
	}
}

// once fails unless each message was published once.
func once(t *testing.T, all []broker.Message, counts map[string]int) {
	t.Helper()
	for _, m := range all {
		if n := counts[m.Topic+" "+m.UUID]; n != 1 {
			t.Errorf("message %s of %s was published %d times", m.Payload, m.Topic, n)
		}
		delete(counts, m.Topic+" "+m.UUID)
	}
	for what := range maps.Keys(counts) {
		t.Errorf("not of this test: %s", what)
	}
}

// published publishes messages, and returns the ones to publish again.
func published(t *testing.T, b *rabbitmq.Broker, all []broker.Message) (again []broker.Message) {
	t.Helper()
	for i, err := range b.Publisher().Publish(t.Context(), all...) {
		switch {
		case err == nil:
			continue
		case errors.Is(err, broker.ErrRefused), errors.Is(err, broker.ErrUnavailable), !strings.HasSuffix(all[i].Topic, "failing.q"):
			t.Errorf("message %s of %s: %v", all[i].Payload, all[i].Topic, err)
		}
		again = append(again, all[i])
	}
	return again
}

// A queue that takes one message and rejects others is drained now and then.
func TestQueueThatIsFullRepeatsNothingOfOthers(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.ready(r.opt)
	b := r.client()
	r.queue(r.failing(), amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
	for j := range others {
		r.queue(r.opt.Routing.EventsOf(tenant(j)), nil)
	}
	counts := make(map[string]int)
	all := r.events()
	left, rounds := all, 0
	for ; len(left) > 0; rounds++ {
		left = published(t, b, left)
		if rounds%3 == 0 {
			r.take(r.failing(), counts)
		}
		if rounds == 1000 {
			t.Fatalf("%d messages are left", len(left))
		}
	}
	for j := range others {
		r.take(r.opt.Routing.EventsOf(tenant(j)), counts)
	}
	r.take(r.failing(), counts)
	t.Logf("%d messages in %d calls", len(all), rounds)
	once(t, all, counts)
}

// Tenants name any number of queues, of which some do not exist: confirms of queues that no
// call waits for take no memory.
func TestQueuesOfManyTenantsAreForgotten(t *testing.T) {
	t.Parallel()
	r := open(t)
	b := r.ready(r.opt)
	if again := published(t, b, r.events()); len(again) > 0 {
		t.Fatalf("%d messages were not published", len(again))
	}
	if n := rabbitmq.Awaited(b); n != 0 {
		t.Errorf("confirms of %d queues are awaited, want none", n)
	}
	b = r.client()
	for i := range others {
		missing := broker.Message{Topic: r.opt.Routing.EventsOf(tenant(others + i)), Message: text("lost")}
		if err := b.Publisher().Publish(t.Context(), missing)[0]; err == nil {
			t.Error("a message without a queue was published")
		}
	}
	if n := rabbitmq.Awaited(b); n != 0 {
		t.Errorf("confirms of %d queues that do not exist are awaited", n)
	}
}

// suspend makes the queue of a topic neither accept nor confirm messages until resume is
// called, as a queue does that has lost the majority of its nodes.
func (o *own) suspend(topic string) (resume func()) {
	const do = `{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"%s">>)), sys:%s(amqqueue:get_pid(Q)).`
	o.ctl("eval", fmt.Sprintf(do, topic, "suspend"))
	return func() { o.ctl("eval", fmt.Sprintf(do, topic, "resume")) }
}

func TestQueueThatConfirmsNothingDelaysAndRepeatsNothingOfOthers(t *testing.T) {
	t.Parallel()
	o := serve(t)
	r := o.rabbit()
	b := r.ready(r.opt)
	published(t, b, r.events())
	resume := o.suspend(r.failing())
	more := r.events()
	began := time.Now()
	left := published(t, b, more)
	if took := time.Since(began); len(left) != each || took > 20*time.Second { // on a busy machine
		t.Errorf("%d messages fail after %v, want %d after about 4 s", len(left), took, each)
	}
	began = time.Now()
	for range 20 {
		if left = published(t, b, left); len(left) != each {
			t.Errorf("%d messages fail again, want %d", len(left), each)
		}
		if fail := published(t, b, r.events()); len(fail) != each {
			t.Errorf("%d messages fail, want %d", len(fail), each)
		}
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("20 more calls took %v, and should not wait for that queue", took)
	}
	resume()
	until(t, "a queue that works", func() bool { left = published(t, b, left); return len(left) == 0 })
	counts := make(map[string]int)
	for j := range others {
		r.take(r.opt.Routing.EventsOf(tenant(j)), counts)
	}
	r.take(r.failing(), counts)
	for what, n := range counts { // what waited for the confirm may be there twice
		if n != 1 && !strings.HasPrefix(what, r.failing()) {
			t.Errorf("%s was published %d times", what, n)
		}
	}
	for _, m := range more {
		if counts[m.Topic+" "+m.UUID] == 0 {
			t.Errorf("message %s of %s was not published", m.Payload, m.Topic)
		}
	}
	if want := 2*others*each + 20*others*each + 2*each; len(counts) != want {
		t.Errorf("%d messages were published, want %d", len(counts), want)
	}
}
