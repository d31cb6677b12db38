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

// Of 300 messages that wait in the retry queues of version 0.1.0, a first instance handles some,
// and stops while it has others. A second instance handles these, and goes on when an operator
// has deleted the queues.
func TestMessagesInOldRetryQueuesAreHandled(t *testing.T) {
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
			commands, s := brokertest.Subscribe(t, b, "timer-service", r.opt.Routing.Commands)
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
			must(t, s.Close())
			stop()

			log := new(logbuf.Buffer)
			b = r.logging(r.opt, slog.New(slog.NewTextHandler(log, nil)))
			brokertest.Start(t, b)
			commands = subscribe(t, b, "timer-service", r.opt.Routing.Commands)
			for len(handled) < n {
				msg := next(t, commands)
				handled[msg.UUID]++
				msg.Ack()
			}
			for id, times := range handled {
				if times > 1 {
					t.Errorf("%s was handled %d times", id, times)
				}
			}
			if text := log.String(); !strings.Contains(text, "delete the queues") || !strings.Contains(text, queues[4]) {
				t.Errorf("an operator learns nothing of the queues:\n%s", text)
			}
			for _, queue := range queues {
				_, err := r.raw.QueueDelete(queue, false, false, false)
				must(t, err)
			}
			publish(t, b, r.opt.Routing.Commands, "command")
			expect(t, commands, "command")
		})
	}
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

// count returns how many messages of a queue no consumer has.
func (r *rabbit) count(queue string) int {
	r.Helper()
	q, err := r.raw.QueueDeclarePassive(queue, true, false, false, false, nil)
	must(r, err)
	return q.Messages
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
