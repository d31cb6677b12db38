package crash

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/verify/crash/history"
	"github.com/event-service-agent/timer-service/verify/crash/traffic"
)

// Names of RabbitMQ, as the service gives them by default.
const (
	rabbitExchange = "svc.direct"
	rabbitPrefix   = "svc."
	rabbitEvents   = ".q"
	rabbitLetters  = ".dlq"
)

// rabbitWire talks with RabbitMQ.
type rabbitWire struct {
	conn *amqp.Connection

	mu     sync.Mutex
	out    *amqp.Channel
	queues []string // of the observer
}

func dialRabbitMQ(url string) (*rabbitWire, error) {
	conn, err := amqp.Dial(url)
	if err != nil {
		return nil, fmt.Errorf("connect with the broker: %w", err)
	}
	w := &rabbitWire{conn: conn}
	if w.out, err = conn.Channel(); err == nil {
		err = w.out.Confirm(false)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open a channel: %w", err), conn.Close())
	}
	return w, nil
}

func (w *rabbitWire) close() { _ = w.conn.Close() } // confirmed messages are there

// publish publishes a command to its queue, as any producer may.
func (w *rabbitWire) publish(ctx context.Context, c history.Command) (uint64, error) {
	headers := make(amqp.Table, len(c.Header))
	for name, value := range c.Header {
		headers[name] = value
	}
	w.mu.Lock()
	confirm, err := w.out.PublishWithDeferredConfirmWithContext(ctx, "", history.CommandsTopic, true, false, amqp.Publishing{
		Headers: headers, Body: c.Body, MessageId: c.DedupeID, DeliveryMode: amqp.Persistent,
	})
	w.mu.Unlock()
	if err != nil {
		return 0, err
	}
	ok, err := confirm.WaitContext(ctx)
	if err == nil && !ok {
		err = errors.New("the broker refused the command")
	}
	return 0, err
}

// observe binds a queue of its own to whatever the service may publish.
func (w *rabbitWire) observe(_ context.Context, recorder *history.Recorder) (stop func(), err error) {
	in, err := w.conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("open a channel: %w", err)
	}
	queue, err := in.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		return nil, fmt.Errorf("make a queue: %w", err)
	}
	w.queues = append(w.queues, queue.Name)
	for _, tenant := range append(traffic.Tenants(tenants), "_") {
		for _, suffix := range []string{rabbitEvents, rabbitLetters} {
			if err := in.QueueBind(queue.Name, rabbitPrefix+tenant+suffix, rabbitExchange, false, nil); err != nil {
				return nil, fmt.Errorf("bind a queue: %w", err)
			}
		}
	}
	deliveries, err := in.Consume(queue.Name, "", true, true, false, false, nil)
	if err != nil {
		return nil, fmt.Errorf("consume: %w", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		t := &tally{recorder: recorder}
		for d := range deliveries {
			header := make(map[string]string, len(d.Headers))
			for name, value := range d.Headers {
				header[name] = fmt.Sprint(value)
			}
			topic := d.RoutingKey
			if tenant, is := strings.CutSuffix(topic, rabbitEvents); is {
				topic = history.EventsTopic(strings.TrimPrefix(tenant, rabbitPrefix))
			}
			t.note(topic, d.MessageId, time.Now(), header, d.Body)
		}
	}()
	return func() {
		_ = in.Close() // ends the deliveries
		<-done
	}, nil
}

// pending counts the messages that wait in the queues. RabbitMQ does not report messages in
// flight: that they are settled shows when nothing is missing.
func (w *rabbitWire) pending(_ context.Context, _ *history.Recorder) (open, unseen int, err error) {
	ch, err := w.conn.Channel()
	if err != nil {
		return 0, 0, fmt.Errorf("open a channel: %w", err)
	}
	defer ch.Close()
	for queue, n := range map[string]*int{history.CommandsTopic: &open} {
		q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		if err != nil {
			return 0, 0, fmt.Errorf("read the state of the queue %s: %w", queue, err)
		}
		*n += q.Messages
	}
	for _, queue := range w.queues {
		q, err := ch.QueueDeclarePassive(queue, false, true, true, false, nil)
		if err != nil {
			return 0, 0, fmt.Errorf("read the state of the queue %s: %w", queue, err)
		}
		unseen += q.Messages
	}
	return open, unseen, nil
}
