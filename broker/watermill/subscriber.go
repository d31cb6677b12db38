package watermill

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker/inflight"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/internal/retry"
)

// Times of a subscription.
const (
	endTimeout = 5 * time.Second // how long the pair may take to end a subscription
	// ackDelay is the wait between the last ack and the end of a subscription, since the
	// pair sends acks in goroutines of its own.
	ackDelay = 50 * time.Millisecond
)

// maxCounts is the most nacked messages whose deliveries are counted.
const maxCounts = 1 << 16

// errEnded says that the pair has closed the channel of a subscription.
var errEnded = errors.New("the pair ended the subscription")

// subscriber subscribes for a role. See [broker.Broker] for its contract.
type subscriber struct {
	*inflight.Subscriptions
	broker *Broker
	role   string
}

// A subscription delivers the messages of a topic until its intake ends.
type subscription struct {
	*subscriber
	topic  string
	window *inflight.Window
	intake context.Context

	mu         sync.Mutex
	deliveries map[string]int // deliveries of nacked messages, by id
}

// SubscribeInitialize calls the same method of the pair's subscriber, if it has one.
func (s *subscriber) SubscribeInitialize(topic string) error {
	sub, err := s.broker.subscribers(s.role)
	if err != nil {
		return fmt.Errorf("subscriber of role %s: %w", s.role, err)
	}
	if i, ok := sub.(message.SubscribeInitializer); ok {
		return i.SubscribeInitialize(topic)
	}
	return nil
}

// Subscribe subscribes at the pair, and retries for ever if that fails. It waits at most
// [Options.SubscribeTimeout] for the first attempt.
func (s *subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	w, err := s.Open(ctx, inflight.Options{Hold: s.broker.opt.MaxDelay})
	if err != nil {
		return nil, err
	}
	sub := &subscription{subscriber: s, topic: topic, window: w, deliveries: make(map[string]int)}
	tried := make(chan struct{})
	w.Run(func(intake context.Context) {
		sub.intake = intake
		sub.run(sync.OnceFunc(func() { close(tried) }))
	})
	late := time.NewTimer(s.broker.opt.SubscribeTimeout)
	defer late.Stop()
	select {
	case <-tried:
	case <-late.C:
	}
	return w.Messages(), nil
}

// run delivers messages until the intake ends. The subscription of the pair ends when no
// message is in flight any more, or the subscriber is closed. Until then messages can be
// acked. It calls tried after the first attempt to subscribe.
func (s *subscription) run(tried func()) {
	pair, end := context.WithCancel(context.WithoutCancel(s.intake))
	defer end()
	in := s.feed(pair, tried)
	s.window.Close()
	s.window.Drain(0, 0, nil)
	s.broker.failures.Set(s, nil)
	pause.For(pair, ackDelay)
	end()
	if in != nil {
		empty(in, (*message.Message).Nack)
	}
}

// empty answers the messages that the pair still sends on a channel, until the pair
// closes it.
func empty(in <-chan *message.Message, answer func(*message.Message) bool) {
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	inflight.Each(ctx, in, func(msg *message.Message) bool {
		answer(msg)
		return true
	})
}

// feed subscribes at the pair again and again, and adds messages to the window until the
// intake ends. It returns the channel that was open then.
func (s *subscription) feed(pair context.Context, tried func()) <-chan *message.Message {
	defer tried()
	for failures := 1; ; failures++ {
		in, err := s.subscribe(pair)
		if err == nil {
			s.broker.failures.Set(s, nil)
			tried()
			began := time.NewTimer(retry.Verify.Longest)
			s.take(in)
			if s.intake.Err() != nil {
				return in
			}
			if !began.Stop() {
				failures = 1 // it worked for a while
			}
			err = errEnded
		}
		s.report(err)
		tried()
		if !pause.For(s.intake, retry.Verify.After(failures)) {
			return nil
		}
	}
}

// subscribe subscribes at the pair.
func (s *subscription) subscribe(pair context.Context) (<-chan *message.Message, error) {
	sub, err := s.broker.subscribers(s.role)
	if err != nil {
		return nil, err
	}
	return sub.Subscribe(pair, s.topic)
}

// take adds messages to the window until the intake ends, or the pair closes its channel.
func (s *subscription) take(in <-chan *message.Message) {
	inflight.Each(s.intake, in, func(msg *message.Message) bool {
		s.mu.Lock()
		n := s.deliveries[msg.UUID] + 1
		s.mu.Unlock()
		s.window.Add(&delivery{subscription: s, msg: msg, times: n}, n)
		return true
	})
}

// report notes why the subscription gets no messages. It logs a reason that differs from
// the one before.
func (s *subscription) report(err error) {
	b := s.broker
	if b.failures.Set(s, fmt.Errorf("subscribe to %s for role %s: %w", s.topic, s.role, err)) && s.intake.Err() == nil {
		b.log.Warn("subscription failed, will retry", "topic", s.topic, "role", s.role, "error", err)
	}
}

// A delivery is a message of the pair. See [inflight.Delivery].
type delivery struct {
	*subscription
	msg   *message.Message
	times int // how often the message was delivered
}

// Bytes returns about how much memory the message takes.
func (d *delivery) Bytes() int { return len(d.msg.Payload) + 512 }

// Message returns a copy. Its ack does not reach the pair by itself.
func (d *delivery) Message() *message.Message {
	return received(d.msg, d.topic)
}

// Stale returns false, since the pair does not report lost messages.
func (d *delivery) Stale() bool { return false }

// Ack acks the message at the pair.
func (d *delivery) Ack() {
	d.mu.Lock()
	delete(d.deliveries, d.msg.UUID)
	d.mu.Unlock()
	d.msg.Ack()
}

// Return counts the delivery and nacks the message at the pair.
func (d *delivery) Return() {
	d.mu.Lock()
	if len(d.deliveries) >= maxCounts {
		clear(d.deliveries)
	}
	d.deliveries[d.msg.UUID] = d.times
	d.mu.Unlock()
	d.msg.Nack()
}

// listen subscribes at the subscriber of Options.Tail.
func (b *Broker) listen(ctx context.Context, topic string) (inflight.Listener, error) {
	if b.opt.Tail == nil {
		return nil, ErrTail
	}
	sub, err := b.opt.Tail()
	if err != nil {
		return nil, err
	}
	reading, end := context.WithCancel(context.WithoutCancel(ctx))
	in, err := sub.Subscribe(reading, topic)
	if err != nil {
		end()
		return nil, err
	}
	return listener{topic, in, end}, nil
}

// A listener reads a subscription of the pair.
type listener struct {
	topic string
	in    <-chan *message.Message
	end   context.CancelFunc
}

// Receive acks messages and sends copies of them.
func (l listener) Receive(ctx context.Context, send func(*message.Message) bool) {
	inflight.Each(ctx, l.in, func(msg *message.Message) bool {
		msg.Ack()
		return send(received(msg, l.topic))
	})
}

// Close ends the subscription of the pair, which closes its channel.
func (l listener) Close() {
	l.end()
	empty(l.in, (*message.Message).Ack)
}
