package rabbitmq_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/brokertest"
	"github.com/event-service-agent/timer-service/broker/rabbitmq"
	"github.com/event-service-agent/timer-service/internal/logbuf"
	"github.com/event-service-agent/timer-service/internal/proxy"
)

// count returns how many messages of a queue no consumer has.
func (r *rabbit) count(queue string) int {
	r.Helper()
	q, err := r.raw.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		r.Fatal(err)
	}
	return q.Messages
}

func TestRetryIsCountedAcrossInstancesAndKeepsTheMessage(t *testing.T) {
	t.Parallel()
	r := open(t)
	topic := r.opt.Routing.Commands
	headers := amqp.Table{"a": "1", "traceparent": "t", "x-timer-deliveries": int64(7), "x-timer-retry-at": int64(1 << 60), "CC": []any{topic + ".copy"}}
	for want := range 4 {
		b, stop := r.start(r.opt)
		if want == 0 {
			r.queue(topic+".copy", nil)
			r.send(amqp.Publishing{Headers: headers, MessageId: "id", CorrelationId: "corr", Type: "type", Expiration: "60000", Body: []byte("body")})
		}
		s := b.Subscriber("timer-service")
		commands, err := s.Subscribe(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		msg := next(t, commands)
		if broker.Deliveries(msg) != want+1 || string(msg.Payload) != "body" || msg.UUID != "id" || msg.Metadata["correlationId"] != "corr" ||
			msg.Metadata["a"] != "1" || msg.Metadata["traceparent"] != "t" || msg.Metadata[broker.MetaTopic] != topic || len(msg.Metadata) != 6 {
			t.Errorf("delivery %d: %v", want+1, msg)
		}
		began := time.Now()
		until(t, "a subscription whose retry queues work", func() bool { return rabbitmq.Retries(b) })
		broker.RetryAfter(msg, time.Second)
		msg.Nack()
		if want == 3 {
			msg := next(t, commands)
			if took := time.Since(began); took < time.Second {
				t.Errorf("again after %v", took)
			}
			msg.Ack()
		}
		stop()
	}
	if n := r.count(topic + ".copy"); n != 1 { // which the producer asked for
		t.Errorf("%d copies", n)
	}
}

// logged returns a broker that runs until the test ends, and what it logs.
func (r *rabbit) logged(opt rabbitmq.Options) (*rabbitmq.Broker, *logbuf.Buffer) {
	r.Helper()
	log := new(logbuf.Buffer)
	b := r.logging(opt, slog.New(slog.NewTextHandler(log, nil)))
	brokertest.Start(r, b)
	awaitReady(r, b)
	return b, log
}

func TestRetriesWaitInMemoryWithoutRetryQueues(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]bool{"a client": true, "a service that declares nothing": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := open(t)
			if err := r.raw.ExchangeDeclare(r.opt.Exchange, "direct", true, false, false, false, nil); err != nil {
				t.Fatal(err)
			}
			r.queue(r.opt.Routing.Commands, nil)
			r.queue(r.opt.Routing.DeadLettersOf("_"), nil)
			r.opt.Client, r.opt.Verify = client, !client
			b, log := r.logged(r.opt)
			commands := subscribe(t, b, "timer-service", r.opt.Routing.Commands)
			const n = 10
			for range n {
				r.send(amqp.Publishing{Body: []byte("command")})
			}
			for times := 1; times <= 2; times++ {
				for range n {
					msg := next(t, commands)
					if broker.Deliveries(msg) != times {
						t.Errorf("delivery %d, want %d", broker.Deliveries(msg), times)
					}
					if times == 2 {
						msg.Ack()
						continue
					}
					broker.RetryAfter(msg, 100*time.Millisecond)
					msg.Nack()
				}
			}
			if n := strings.Count(log.String(), "wait in memory"); client != (n == 0) || n > 1 {
				t.Errorf("%d lines:\n%s", n, log.String())
			}
		})
	}
}

func TestRetryQueueThatIsDeletedIsMadeAgain(t *testing.T) {
	t.Parallel()
	r := open(t)
	b := r.ready(r.opt)
	commands := subscribe(t, b, "timer-service", r.opt.Routing.Commands)
	until(t, "retry queues", func() bool { return rabbitmq.Retries(b) })
	if _, err := r.raw.QueueDelete(r.opt.Routing.Commands+".retry.2s", false, false, false); err != nil {
		t.Fatal(err)
	}
	publish(t, b, r.opt.Routing.Commands, "command")
	for range 3 {
		msg := next(t, commands)
		broker.RetryAfter(msg, 100*time.Millisecond)
		msg.Nack()
	}
	next(t, commands).Ack()
	until(t, "retry queues", func() bool { return rabbitmq.Retries(b) && r.count(r.opt.Routing.Commands+".retry.2s") == 0 })
}

// A server that is slow to answer refuses nothing: messages that wait ten minutes in memory
// would stop all others.
func TestMessagesWaitForRetryQueuesThatAreDeclaredSlowly(t *testing.T) {
	t.Parallel()
	r := open(t)
	b, log := r.logged(r.opt)
	ctx, leave := context.WithCancel(t.Context())
	commands, err := b.Subscriber("timer-service").Subscribe(ctx, r.opt.Routing.Commands)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "retry queues", func() bool { return rabbitmq.Retries(b) })
	publish(t, b, r.opt.Routing.Commands, "command")
	msg := next(t, commands)

	retryQueue := r.opt.Routing.Commands + ".retry.10m"
	if _, err := r.raw.QueueDelete(retryQueue, false, false, false); err != nil {
		t.Fatal(err)
	}
	r.proxy.Delay(proxy.ToClient, 3*time.Second) // a declaration asks more than once
	until(t, "a try that took too long", func() bool { return strings.Contains(log.String(), context.DeadlineExceeded.Error()) })
	broker.RetryAfter(msg, 10*time.Minute)
	msg.Nack()
	r.proxy.Pass()
	until(t, "retry queues", func() bool { return rabbitmq.Retries(b) })
	leave() // gives back what is held here
	until(t, "the message in its retry queue", func() bool { return r.count(retryQueue) == 1 })
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
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Duration(i)*time.Millisecond, cancel)
		for range messages { // until it ends
			t.Error("a message")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	until(t, "queues without consumers", func() bool {
		for _, queue := range append(retryQueues(r.opt.Routing.Commands), r.opt.Routing.Commands) {
			if q, err := r.raw.QueueDeclarePassive(queue, true, false, false, false, nil); err == nil && q.Consumers > 0 {
				return false
			}
		}
		return true
	})
}
