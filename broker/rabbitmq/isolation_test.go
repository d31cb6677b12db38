package rabbitmq_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/internal/longtest"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/rabbitmq"
)

func TestRetryOfAMessageWhosePropertiesFillAFrameHarmsNoOther(t *testing.T) {
	t.Parallel()
	r := open(t)
	b := r.ready(r.opt)
	commands := subscribe(t, b, "timer-service", r.opt.Routing.Commands)
	until(t, "retry queues", func() bool { return rabbitmq.Retries(b) })
	publish(t, b, r.topic(), "event") // on the connection that retries are published on
	const (
		frame  = 128 << 10
		shorts = 7 * 256
		others = 14 + 4 + 2 + 5 + 16 // class, size of the body, flags; the table, its name, its value; spare
	)
	short := strings.Repeat("s", 255)
	r.send(amqp.Publishing{
		ContentType: short, ContentEncoding: short, CorrelationId: short, ReplyTo: short, MessageId: short, Type: short, AppId: short,
		Headers: amqp.Table{"h": strings.Repeat("v", frame-shorts-others)}, Body: []byte("full"),
	})
	before, _ := b.Interruptions()
	for range 3 {
		msg := next(t, commands)
		broker.RetryAfter(msg, 100*time.Millisecond)
		msg.Nack()
	}
	msg := next(t, commands)
	if string(msg.Payload) != "full" || broker.Deliveries(msg) != 4 {
		t.Errorf("got %q, delivery %d", msg.Payload, broker.Deliveries(msg))
	}
	msg.Ack()
	publish(t, b, r.topic(), "event")
	if after, _ := b.Interruptions(); after != before {
		t.Errorf("%d connections were lost", after-before)
	}
}

func TestRetryQueueThatHangsHoldsUpNothingElse(t *testing.T) {
	t.Parallel()
	o := serve(t)
	r := o.rabbit()
	if _, err := rabbitmq.New(r.opt, quiet).Provision(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	resume := o.suspend("timer.commands.retry.10m")
	b := r.ready(r.opt)
	commands := subscribe(t, b, "timer-service", "timer.commands")
	publish(t, b, "timer.commands", "command")
	expect(t, commands, "command")
	red := 0
	for range 20 {
		<-time.After(100 * time.Millisecond)
		if err := b.Ready(t.Context()); err != nil {
			red++
			t.Logf("Ready: %v", err)
		}
	}
	if red > 0 {
		t.Errorf("not ready %d times of 20", red)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := b.CatchUp(ctx, "timer-service"); err != nil {
		t.Errorf("CatchUp: %v", err)
	}
	msg := broker.Message{Topic: "timer.commands", Message: text("again")}
	if err := b.Publisher().Publish(t.Context(), msg)[0]; err != nil {
		t.Fatal(err)
	}
	again := next(t, commands)
	broker.RetryAfter(again, 100*time.Millisecond)
	again.Nack()
	expect(t, commands, "again")
	resume()
	until(t, "retry queues", func() bool { return rabbitmq.Retries(b) })
}

func TestRetryQueuesOutliveTheExchange(t *testing.T) {
	t.Parallel()
	r := open(t)
	b := r.ready(r.opt)
	commands := subscribe(t, b, "timer-service", r.opt.Routing.Commands)
	until(t, "retry queues", func() bool { return rabbitmq.Retries(b) })
	if err := r.raw.ExchangeDelete(r.opt.Exchange, false, false); err != nil {
		t.Fatal(err)
	}
	until(t, "an exchange that takes messages", func() bool {
		return b.Publisher().Publish(t.Context(), broker.Message{Topic: r.opt.Routing.Commands, Message: text("first")})[0] == nil
	})
	first := next(t, commands)
	broker.RetryAfter(first, 100*time.Millisecond)
	first.Nack() // the first that is returned
	expect(t, commands, "first")
	const n = 600
	var all []broker.Message
	for range n {
		all = append(all, broker.Message{Topic: r.opt.Routing.Commands, Message: text("over quota")})
	}
	if err := broker.Join(b.Publisher().Publish(t.Context(), all...)); err != nil {
		t.Fatal(err)
	}
	for range n {
		msg := next(t, commands)
		broker.RetryAfter(msg, 10*time.Minute)
		msg.Nack()
	}
	until(t, "all but what is held here in the retry queue", func() bool { return r.count(r.opt.Routing.Commands+".retry.10m") == n-256 })
}

func TestLargeMessagesThatWaitInMemoryAreBounded(t *testing.T) {
	t.Parallel()
	longtest.NotShort(t)
	r := open(t)
	r.ready(r.opt)
	client := r.opt
	client.Client = true // it has no retry queues
	b := r.ready(client)
	const n, size, limit = 40, 4 << 20, 64 << 20
	body := []byte(strings.Repeat("x", size))
	for i := range n {
		r.send(amqp.Publishing{MessageId: strconv.Itoa(i), Body: body})
	}
	commands := subscribe(t, b, "timer-service", r.opt.Routing.Commands)
	left, waiting := n, make(map[string]bool)
	for left == n { // until the first of them comes again
		msg := next(t, commands)
		if waiting[msg.UUID] {
			msg.Ack()
			left--
			continue
		}
		waiting[msg.UUID] = true
		broker.RetryAfter(msg, 20*time.Second)
		msg.Nack()
	}
	// A nack is noticed a moment later, so as many messages may be in flight as wait.
	if most := 2 * limit / size; len(waiting) > most {
		t.Errorf("%d messages of %d bytes are in memory, want %d at most", len(waiting), size, most)
	}
	for range left { // each of them comes, sooner or later
		next(t, commands).Ack()
	}
}

func TestRunEndsWhileQueuesHang(t *testing.T) {
	t.Parallel()
	o := serve(t)
	r := o.rabbit()
	b, stop := r.start(r.opt)
	commands := subscribe(t, b, "timer-service", "timer.commands")
	until(t, "retry queues", func() bool { return rabbitmq.Retries(b) })
	publish(t, b, "timer.commands", "one", "two")
	one, two := next(t, commands), next(t, commands)
	o.suspend("timer.commands.retry.2s")
	o.suspend("timer.commands")
	broker.RetryAfter(one, time.Second)
	one.Nack()
	<-time.After(100 * time.Millisecond) // it is published
	began := time.Now()
	stop()
	if took := time.Since(began); took > time.Second {
		t.Errorf("Run ended after %v, want a second at most", took)
	}
	two.Ack() // it is too late for that
}

func TestQueueThatHangsWhileItIsDeclaredTakesOneChannel(t *testing.T) {
	t.Parallel()
	o := serve(t)
	r := o.rabbit()
	hangs := r.opt.Routing.EventsOf("hangs")
	publish(t, r.ready(r.opt), hangs, "event")
	resume := o.suspend(hangs)
	b := r.ready(r.opt) // which does not know the queue
	publish(t, b, r.topic(), "event")
	before := o.channels()
	for range 4 {
		if err := b.Publisher().Publish(t.Context(), broker.Message{Topic: hangs, Message: text("event")})[0]; err == nil {
			t.Fatal("published to a queue that hangs")
		}
		publish(t, b, r.topic(), "event")
	}
	if more := o.channels() - before; more > 1 {
		t.Errorf("%d more channels are open", more)
	}
	resume()
	until(t, "a queue that works", func() bool {
		return b.Publisher().Publish(t.Context(), broker.Message{Topic: hangs, Message: text("event")})[0] == nil
	})
}

func (o *own) channels() (n int) {
	o.Helper()
	for _, field := range strings.Fields(o.ctl("list_connections", "channels")) {
		of, _ := strconv.Atoi(field) // else it is the head of the column
		n += of
	}
	return n
}
