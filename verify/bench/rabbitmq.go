package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/verify/crash"
)

// Queues of RabbitMQ whose messages expire: one for each delay, since those of one queue expire
// in their order.
const (
	rabbitEvents = "events"
	rabbitStep   = 100 * time.Millisecond // between two delays
)

// RabbitMQSteady gives the work of [Steady] to durable queues of RabbitMQ: quorum queues whose
// messages expire after a delay of the queue, and are dead-lettered, at least once, to the queue
// of events.
func RabbitMQSteady(ctx context.Context, opt Options) (r Result, err error) {
	opt = opt.withDefaults()
	dir, err := os.MkdirTemp("", "timer-bench-")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	server, url, err := startBroker(ctx, crash.RabbitMQ, dir)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, server.Kill()) }()
	conn, err := amqp.Dial(url)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	out, err := conn.Channel()
	if err != nil {
		return r, err
	}
	if err := declareDelays(out); err != nil {
		return r, err
	}
	k := newSink(opt.steadyTimers())
	in, err := conn.Channel()
	if err != nil {
		return r, err
	}
	events, err := in.ConsumeWithContext(ctx, rabbitEvents, "", false, false, false, false, nil)
	if err != nil {
		return r, err
	}
	go func() {
		for m := range events {
			at := time.Now()
			due, _ := strconv.ParseInt(m.Type, 10, 64) // one that is no time is very late
			k.take(m.MessageId, arrival{at: at, due: time.UnixMilli(due)})
			_ = m.Ack(false) // the run ends with the connection
		}
	}()
	p := peer{sink: k, usages: func() (usages, error) { return usagesOf(server, nil) }}
	r, err = p.steady(ctx, opt, func(total int) error { return publishAtRate(ctx, out, opt, total) })
	r.Workload, r.Setup = "RabbitMQ steady", "a quorum queue with a TTL for each delay"
	return r, err
}

func delayQueue(delay time.Duration) string { return "delay-" + delay.String() }

// declareDelays makes the queues, and has the channel confirm what is published.
func declareDelays(ch *amqp.Channel) error {
	quorum := amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum}
	if _, err := ch.QueueDeclare(rabbitEvents, true, false, false, false, quorum); err != nil {
		return err
	}
	for delay := leadMin; delay <= leadMax; delay += rabbitStep {
		if _, err := ch.QueueDeclare(delayQueue(delay), true, false, false, false, amqp.Table{
			amqp.QueueTypeArg: amqp.QueueTypeQuorum, amqp.QueueMessageTTLArg: delay.Milliseconds(), "x-dead-letter-exchange": "",
			"x-dead-letter-routing-key": rabbitEvents, "x-dead-letter-strategy": "at-least-once", amqp.QueueOverflowArg: amqp.QueueOverflowRejectPublish,
		}); err != nil {
			return fmt.Errorf("make queue %s: %w", delayQueue(delay), err)
		}
	}
	return ch.Confirm(false)
}

// publishAtRate publishes messages at the rate of opt, and returns when all are confirmed. Each
// is due when its queue's delay has passed since it was sent.
func publishAtRate(ctx context.Context, ch *amqp.Channel, opt Options, total int) error {
	confirms := make([]*amqp.DeferredConfirmation, 0, total)
	if err := paced(ctx, opt.Rate, func(sent int) bool { return sent < total }, func(now time.Time, first, next int) func(context.Context) error {
		var failed error
		for n := first; n < next; n++ {
			delay := leadMin + rabbitStep*time.Duration(rand.IntN(int((leadMax-leadMin)/rabbitStep)+1))
			due := time.Now().Add(delay)
			confirm, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", delayQueue(delay), true, false, amqp.Publishing{
				MessageId: strconv.Itoa(n), Type: strconv.FormatInt(due.UnixMilli(), 10), Body: encode(command(opt.tenant(n), now, due)).Payload, DeliveryMode: amqp.Persistent,
			})
			failed, confirms = errors.Join(failed, err), append(confirms, confirm)
		}
		return func(context.Context) error { return failed }
	}); err != nil {
		return err
	}
	for _, confirm := range confirms {
		if ok, err := confirm.WaitContext(ctx); err != nil || !ok {
			return errors.Join(err, errors.New("a message was not confirmed"))
		}
	}
	return nil
}
