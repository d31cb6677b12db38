package services

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/internal/freeport"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/internal/rabbitd"
)

// rabbitQueues are quorum queues of RabbitMQ, one for each delay in seconds, whose messages
// expire and are dead-lettered, at least once, to the queue of events. Nothing is moved or
// canceled: AMQP removes no single message.
type rabbitQueues struct {
	url string

	mu   sync.Mutex
	conn *amqp.Connection
	out  *amqp.Channel
}

const (
	rabbitEvents    = "events"
	rabbitHeartbeat = 2 * time.Second
	rabbitPrefetch  = 1000
)

func rabbitDelay(seconds int) string { return fmt.Sprintf("delay-%d", seconds) }

func openRabbitMQ(ctx context.Context, w *world) (service, error) {
	port, err := freeport.Find(ctx)
	if err != nil {
		return nil, err
	}
	var server *rabbitd.Server
	start := func(ctx context.Context) (err error) {
		server, err = rabbitd.Start(ctx, w.dir, port)
		return err
	}
	if err := start(ctx); err != nil {
		return nil, err
	}
	kill := func() error { server.Kill(); return nil }
	w.onClose(kill)
	w.harm.processes = append(w.harm.processes, part{"RabbitMQ", start, kill, func() int { return server.PID() }})
	at, err := w.through("client to RabbitMQ", freeport.Address(port))
	if err != nil {
		return nil, err
	}
	s := &rabbitQueues{url: "amqp://guest:guest@" + at + "/"}
	if err := s.declare(ctx); err != nil {
		return nil, err
	}
	consuming, stop := context.WithCancel(ctx)
	var consumer sync.WaitGroup
	consumer.Go(func() {
		for consuming.Err() == nil {
			s.consume(consuming, w.rec)
			pause.For(consuming, tryPause)
		}
	})
	w.onClose(func() error { stop(); consumer.Wait(); s.hangUp(); return nil })
	return s, nil
}

func (s *rabbitQueues) dial() (*amqp.Connection, *amqp.Channel, error) {
	conn, err := amqp.DialConfig(s.url, amqp.Config{Heartbeat: rabbitHeartbeat, Dial: amqp.DefaultDial(tryTimeout)})
	if err != nil {
		return nil, nil, err
	}
	ch, err := conn.Channel()
	if err != nil {
		_ = conn.Close() // it is of no use
		return nil, nil, err
	}
	return conn, ch, nil
}

// declare makes the queues. It is tried for as long as the server needs to elect their leaders.
func (s *rabbitQueues) declare(ctx context.Context) error {
	conn, ch, err := s.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := ch.QueueDeclare(rabbitEvents, true, false, false, false, amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum}); err != nil {
		return err
	}
	for seconds := 1; seconds <= mostDelay; seconds++ {
		if _, err := ch.QueueDeclare(rabbitDelay(seconds), true, false, false, false, amqp.Table{
			amqp.QueueTypeArg: amqp.QueueTypeQuorum, amqp.QueueMessageTTLArg: seconds * 1000, "x-dead-letter-exchange": "",
			"x-dead-letter-routing-key": rabbitEvents, "x-dead-letter-strategy": "at-least-once", amqp.QueueOverflowArg: amqp.QueueOverflowRejectPublish,
		}); err != nil {
			return fmt.Errorf("make queue %s: %w", rabbitDelay(seconds), err)
		}
	}
	return ctx.Err()
}

// channel returns the channel of the publisher, and connects if there is none.
func (s *rabbitQueues) channel() (*amqp.Channel, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out != nil && !s.out.IsClosed() {
		return s.out, nil
	}
	if s.conn != nil {
		_ = s.conn.CloseDeadline(time.Now().Add(time.Second)) // it is of no use
	}
	var err error
	if s.conn, s.out, err = s.dial(); err != nil {
		s.out = nil
		return nil, err
	}
	return s.out, s.out.Confirm(false)
}

func (s *rabbitQueues) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		_ = s.conn.CloseDeadline(time.Now().Add(time.Second)) // all is over
	}
}

// do publishes to the queue whose delay is the next that is not too short: a command that is
// sent again has less time left.
func (s *rabbitQueues) do(ctx context.Context, c command) (answer, error) {
	ch, err := s.channel()
	if err != nil {
		return 0, err
	}
	left := time.Until(c.due)
	seconds := min(max(1, int((left+time.Second-1)/time.Second)), mostDelay)
	confirm, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", rabbitDelay(seconds), true, false, amqp.Publishing{
		Headers: amqp.Table{"key": c.key}, Body: []byte(strconv.Itoa(c.op)), MessageId: strconv.Itoa(c.op), DeliveryMode: amqp.Persistent,
	})
	if err != nil {
		return 0, err
	}
	ok, err := confirm.WaitContext(ctx)
	if err == nil && !ok {
		err = errors.New("the server refused the message")
	}
	return inForce, err
}

// consume acks each event after it was noted, until the connection ends.
func (s *rabbitQueues) consume(ctx context.Context, rec *recorder) {
	conn, ch, err := s.dial()
	if err != nil {
		return
	}
	defer func() { _ = conn.CloseDeadline(time.Now().Add(time.Second)) }() // unacked events come again
	if err := ch.Qos(rabbitPrefetch, 0, false); err != nil {
		return
	}
	events, err := ch.ConsumeWithContext(ctx, rabbitEvents, "", false, false, false, false, nil)
	if err != nil {
		return
	}
	for m := range events {
		op, err := strconv.Atoi(string(m.Body))
		key, is := m.Headers["key"].(string)
		if err != nil || !is {
			rec.fail(fmt.Errorf("take message %q: %w", m.Body, err))
			return
		}
		rec.noteSeen(key, op, m.MessageId)
		_ = m.Ack(false) // otherwise it comes again
	}
}
