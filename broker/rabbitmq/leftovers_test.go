package rabbitmq_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/brokertest"
	"github.com/event-service-agent/timer-service/broker/rabbitmq"
	"github.com/event-service-agent/timer-service/internal/logbuf"
	"github.com/event-service-agent/timer-service/internal/longtest"
)

// leave declares the retry queues of version 0.1.0, and publishes n messages to them, as it
// did.
func (r *rabbit) leave(n int) (queues []string) {
	r.Helper()
	must(r, r.raw.ExchangeDeclare(r.opt.Exchange, "direct", true, false, false, false, nil))
	var args amqp.Table
	if r.opt.QueueType == rabbitmq.Quorum {
		args = amqp.Table{"x-queue-type": "quorum"}
	}
	for _, suffix := range []string{"2s", "6s", "30s", "2m", "10m"} {
		queue := r.opt.Routing.Commands + ".retry." + suffix
		r.queue(queue, args)
		queues = append(queues, queue)
	}
	must(r, r.raw.Confirm(false))
	at := time.Now().Add(time.Hour).UnixMilli()
	for i := range n {
		done, err := r.raw.PublishWithDeferredConfirm(r.opt.Exchange, queues[i%len(queues)], true, false, amqp.Publishing{
			MessageId: fmt.Sprint(i), DeliveryMode: amqp.Persistent, Body: []byte("waits"),
			Headers: amqp.Table{"traceparent": "t", "x-timer-deliveries": int64(7), "x-timer-retry-at": at, "x-timer-hold-until": at},
		})
		if err != nil || !done.Wait() {
			r.Fatal("not published: ", err)
		}
	}
	return queues
}

// exists reports whether the server has a queue.
func (r *rabbit) exists(queue string) bool {
	r.Helper()
	conn, err := amqp.Dial(r.direct)
	must(r, err)
	defer conn.Close()
	ch, err := conn.Channel()
	must(r, err)
	_, err = ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	return err == nil
}

// anyLeft reports whether one of the queues exists.
func (r *rabbit) anyLeft(queues []string) bool {
	for _, queue := range queues {
		if r.exists(queue) {
			return true
		}
	}
	return false
}

// Of 300 messages that wait in the retry queues of version 0.1.0, a first instance handles some,
// and stops while it has others. A second instance handles these, and removes the queues.
func TestMessagesInOldRetryQueuesAreHandledAndTheQueuesRemoved(t *testing.T) {
	t.Parallel()
	for _, kind := range []rabbitmq.QueueType{rabbitmq.Classic, rabbitmq.Quorum} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			r := open(t)
			r.opt.QueueType = kind
			const n = 300
			queues := r.leave(n)
			handled := make(map[string]int)
			b, stop := r.start(r.opt)
			s := b.Subscriber("timer-service")
			commands, err := s.Subscribe(t.Context(), r.opt.Routing.Commands)
			must(t, err)
			for i := range 200 {
				msg := next(t, commands)
				if string(msg.Payload) != "waits" || msg.Metadata["traceparent"] != "t" || msg.Metadata[broker.MetaTopic] != r.opt.Routing.Commands {
					t.Errorf("%s: %v", msg.Payload, msg.Metadata)
				}
				switch {
				case i%3 == 0:
					msg.Nack()
				case i%3 == 1:
					handled[msg.UUID]++
					msg.Ack()
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			stop()

			b, log := r.logged(r.opt)
			commands = subscribe(t, b, "timer-service", r.opt.Routing.Commands)
			for len(handled) < n {
				msg := next(t, commands)
				if len(handled) == n-1 {
					<-time.After(3 * time.Second) // it is at work
					if !r.exists(queues[0]) {
						t.Error("a queue was removed while a message was not acked")
					}
				}
				handled[msg.UUID]++
				msg.Ack()
			}
			until(t, "the old queues to be removed", func() bool { return !r.anyLeft(queues) })
			for id, times := range handled {
				if times > 1 {
					t.Errorf("%s was handled %d times", id, times)
				}
			}
			until(t, "a line", func() bool { return strings.Contains(log.String(), "version 0.1.0") })
			if want := fmt.Sprintf("messages=%d", n-67); !strings.Contains(log.String(), want) {
				t.Errorf("want %s in:\n%s", want, log)
			}
			publish(t, b, r.opt.Routing.Commands, "command")
			expect(t, commands, "command")
		})
	}
}

// An instance of version 0.1.0 still runs, and holds a message. The server would forget it if
// its queue were removed.
func TestOldRetryQueuesStayWhileAnotherInstanceReadsThem(t *testing.T) {
	t.Parallel()
	longtest.NotShort(t)
	r := open(t)
	queues := r.leave(1)
	conn, err := amqp.Dial(r.direct)
	must(t, err)
	defer conn.Close()
	ch, err := conn.Channel()
	must(t, err)
	held, err := ch.Consume(queues[0], "", false, false, false, false, nil)
	must(t, err)
	<-held
	b, log := r.logged(r.opt)
	commands := subscribe(t, b, "timer-service", r.opt.Routing.Commands)
	until(t, "a reason", func() bool { return strings.Contains(log.String(), "another instance reads it") })
	if !r.exists(queues[0]) {
		t.Fatal("the queue was removed")
	}
	must(t, conn.Close())
	msg := <-commands // a minute later
	if msg.UUID != "0" {
		t.Errorf("got %s", msg.UUID)
	}
	msg.Ack()
	until(t, "the old queues to be removed", func() bool { return !r.anyLeft(queues) })
}

func TestOldRetryQueueThatHangsHoldsUpNothingElse(t *testing.T) {
	t.Parallel()
	o := serve(t)
	r := o.rabbit()
	if _, err := rabbitmq.New(r.opt, quiet).Provision(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	r.opt.Exchange = "svc.direct"
	queues := r.leave(1)
	o.suspend(queues[4])
	b := r.ready(r.opt)
	commands := subscribe(t, b, "timer-service", "timer.commands")
	publish(t, b, "timer.commands", "command")
	expect(t, commands, "command")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := b.CatchUp(ctx, "timer-service"); err != nil {
		t.Errorf("CatchUp: %v", err)
	}
	if err := b.Ready(t.Context()); err != nil {
		t.Errorf("Ready: %v", err)
	}
}

// A nacked message comes again without a second copy at the server, and with all it had.
func TestRetryKeepsTheMessage(t *testing.T) {
	t.Parallel()
	r := open(t)
	commands := subscribe(t, r.ready(r.opt), "timer-service", r.opt.Routing.Commands)
	r.queue(r.opt.Routing.Commands+".copy", nil)
	r.send(amqp.Publishing{
		Headers:   amqp.Table{"a": "1", "traceparent": "t", "x-timer-deliveries": int64(7), "CC": []any{r.opt.Routing.Commands + ".copy"}},
		MessageId: "id", CorrelationId: "corr", Type: "type", Expiration: "60000", Body: []byte("body"),
	})
	for want := range 3 {
		msg := next(t, commands)
		if broker.Deliveries(msg) != want+1 || string(msg.Payload) != "body" || msg.UUID != "id" || msg.Metadata["correlationId"] != "corr" ||
			msg.Metadata["a"] != "1" || msg.Metadata["traceparent"] != "t" || len(msg.Metadata) != 6 {
			t.Errorf("delivery %d: %v", want+1, msg)
		}
		if want < 2 {
			msg.Nack()
			continue
		}
		msg.Ack()
	}
	if n := r.count(r.opt.Routing.Commands + ".copy"); n != 1 { // which the producer asked for
		t.Errorf("%d copies", n)
	}
}

// count returns how many messages of a queue no consumer has.
func (r *rabbit) count(queue string) int {
	r.Helper()
	q, err := r.raw.QueueDeclarePassive(queue, true, false, false, false, nil)
	must(r, err)
	return q.Messages
}

// logged returns a broker that runs until the test ends, and its log.
func (r *rabbit) logged(opt rabbitmq.Options) (*rabbitmq.Broker, *logbuf.Buffer) {
	r.Helper()
	log := new(logbuf.Buffer)
	b := r.logging(opt, slog.New(slog.NewTextHandler(log, nil)))
	brokertest.Start(r, b)
	awaitReady(r, b)
	return b, log
}

// A consumer that no subscription reads from would keep messages from all others.
func TestSubscriptionThatEndsWhileItBeginsLeavesNoConsumer(t *testing.T) {
	t.Parallel()
	r := open(t)
	b := r.ready(r.opt)
	for i := range 30 {
		ctx, cancel := context.WithCancel(t.Context())
		s := b.Subscriber("timer-service")
		messages, err := s.Subscribe(ctx, r.opt.Routing.Commands)
		must(t, err)
		time.AfterFunc(time.Duration(i)*time.Millisecond, cancel)
		for range messages { // until it ends
			t.Error("a message")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	until(t, "a queue without consumers", func() bool {
		q, err := r.raw.QueueDeclarePassive(r.opt.Routing.Commands, true, false, false, false, nil)
		return err != nil || q.Consumers == 0
	})
}
