package rabbitmq

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/broker/inflight"
	"github.com/event-service-agent/timer-service/internal/pause"
)

// How far a reader of a tail may be behind: here, and at the server, which drops
// the oldest beyond that.
const (
	tailPrefetch = 256
	tailBuffer   = 8192
)

// tail subscribes to what is published from now on. See [broker.Broker] for its
// contract.
type tail struct {
	*inflight.Subscriptions
	broker *Broker
}

// Subscribe returns when the server has a queue for us, so that it returns an
// error while there is no connection. After a reconnect it goes on; what was
// published meanwhile is missed.
func (t *tail) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	if err := checkName(topic); err != nil {
		return nil, err
	}
	if !t.Join() {
		return nil, ErrClosed
	}
	started := false
	defer func() {
		if !started {
			t.Left()
			t.broker.term.Done()
		}
	}()
	conn, err := t.broker.main.current()
	if err != nil {
		return nil, fmt.Errorf("tail %s: %w", topic, err)
	}
	e, err := t.broker.listen(ctx, conn, topic)
	if err != nil {
		return nil, fmt.Errorf("tail %s: %w", topic, err)
	}
	started = true
	out := make(chan *message.Message)
	go func() {
		defer t.broker.term.Done()
		defer t.Left()
		defer close(out)
		t.run(ctx, topic, e, out)
	}()
	return out, nil
}

// An ear is a queue of our own, which ends with its connection or its consumer.
type ear struct {
	channel *amqp.Channel
	in      <-chan amqp.Delivery
}

// listen makes a queue and binds it to the key of a topic. If ctx ends first
// nothing stays of it.
func (b *Broker) listen(ctx context.Context, conn *connection, topic string) (*ear, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	e := new(ear)
	var over atomic.Bool // for one of us two; the other one removes the queue
	err := b.within(ctx, func() error {
		err := e.open(conn, topic, b.opt.Exchange)
		if err == nil && over.Swap(true) {
			b.deaf(e)
		}
		return err
	})
	if err != nil {
		if over.Swap(true) {
			b.deaf(e)
		}
		return nil, err
	}
	return e, nil
}

func (e *ear) open(conn *connection, topic, exchange string) (err error) {
	if e.channel, err = conn.Channel(); err != nil {
		return err
	}
	q, err := e.channel.QueueDeclare("", false, true, true, false, amqp.Table{argMax: tailBuffer})
	if err != nil {
		return err
	}
	if err := e.channel.QueueBind(q.Name, topic, exchange, false, nil); err != nil {
		return err
	}
	if err := e.channel.Qos(tailPrefetch, 0, false); err != nil {
		return err
	}
	e.in, err = e.channel.Consume(q.Name, tag, false, true, false, false, nil)
	return err
}

// deaf removes the queue of an ear. If the server does not answer it goes with
// the connection.
func (b *Broker) deaf(e *ear) {
	b.asks.Add(1) // nobody waits for these before the last subscription has ended
	closed := make(chan struct{})
	go func() {
		defer b.asks.Done()
		defer close(closed)
		go func() {
			for range e.in { // the library waits for a reader
				continue
			}
		}()
		_ = e.channel.Close()
	}()
	late := time.NewTimer(readyTimeout)
	defer late.Stop()
	select {
	case <-closed:
	case <-late.C:
	}
}

// run delivers messages until ctx is done, the tail is closed or the broker is
// over. When the connection ends it listens on the next one.
func (t *tail) run(ctx context.Context, topic string, e *ear, out chan<- *message.Message) {
	ctx, stop := t.Until(ctx)
	defer stop()
	for {
		e.forward(ctx, topic, out)
		t.broker.deaf(e)
		for again := true; again; {
			conn := t.broker.main.usable(ctx)
			if conn == nil {
				return
			}
			var err error
			if e, err = t.broker.listen(ctx, conn, topic); err == nil {
				again = false
			} else if !pause.For(ctx, minBackoff) {
				return
			}
		}
	}
}

// forward delivers messages until ctx is done or the channel is closed.
func (e *ear) forward(ctx context.Context, topic string, out chan<- *message.Message) {
	for {
		select {
		case <-ctx.Done():
			return
		case in, ok := <-e.in:
			if !ok {
				return
			}
			msg := unmarshal(topic, &in)
			msg.SetContext(ctx)
			select {
			case <-ctx.Done():
				return
			case out <- msg:
			}
			_ = e.channel.Ack(in.DeliveryTag, false) // if not, the tail is over
		}
	}
}
