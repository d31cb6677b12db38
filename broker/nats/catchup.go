package nats

import (
	"context"
	"fmt"

	natsgo "github.com/nats-io/nats.go"

	"github.com/event-service-agent/timer-service/broker/connection"
	"github.com/event-service-agent/timer-service/internal/pause"
)

// Interruptions returns how often the connection was lost, and why there is none
// now.
func (b *Broker) Interruptions() (int64, error) {
	n := b.outages.Load()
	_, away := b.current()
	return n, away
}

// CatchUp waits until the consumer has delivered the last command that was in the stream
// when CatchUp was called, until this process has received all deliveries before it, and
// until these are settled. It does not use the consumer's number of pending messages: the
// server counts a message there a moment after it has acked the publisher.
//
// In general CatchUp does not wait for deliveries that are not acked: a process that has
// died would delay all others by the ack wait. It does wait after this process has lost
// its connection: messages that were lost with it are redelivered within the ack wait, and
// until then the server counts more of them than this process holds.
func (b *Broker) CatchUp(ctx context.Context, role string) error {
	return b.withSession(ctx, func(ctx context.Context, session *session) error {
		return b.catchUp(ctx, session, b.commandsOf(role))
	})
}

// commandsOf returns the name of the consumer of a role's commands.
func (b *Broker) commandsOf(role string) string {
	return ConsumerName(role, b.opt.Routing.Subscription())
}

// withSession calls fn with a context that ends when the connection is lost; the error is
// [connection.ErrNotConnected] then. Without a connection it returns an error at once.
func (b *Broker) withSession(ctx context.Context, fn func(context.Context, *session) error) error {
	session, err := b.current()
	if err != nil {
		return err
	}
	connected, end := session.whileConnected(ctx)
	defer end()
	err = fn(connected, session)
	if err != nil && connected.Err() != nil && ctx.Err() == nil {
		return connection.ErrNotConnected
	}
	return err
}

func (b *Broker) catchUp(ctx context.Context, session *session, durable string) error {
	var subs []*subscription
	var last uint64 // sequence
	err := pause.Until(ctx, func() (ok bool, err error) {
		if subs = b.subscriptions(func(s *subscription) bool { return s.durable == durable }); len(subs) > 0 {
			last, err = b.lastCommand(ctx, session)
		}
		return len(subs) > 0, err
	})
	if err != nil {
		return err
	}
	err = pause.Until(ctx, func() (bool, error) {
		info, err := b.lookUpConsumer(ctx, session, durable)
		if err != nil {
			return false, fmt.Errorf("consumer %s: %w", durable, err)
		}
		lost := b.recent.Load() > 0 && info.NumAckPending > held(subs)
		if info.Delivered.Stream < last && info.NumPending == 0 { // or the last command was removed meanwhile
			now, err := b.lastCommand(ctx, session)
			if err != nil {
				return false, err
			}
			last = min(last, now)
		}
		return !lost && info.Delivered.Stream >= last, nil
	})
	if err != nil {
		return err
	}
	if err := b.receiveAll(ctx, session, durable, subs); err != nil {
		return err
	}
	for _, s := range subs {
		settled := s.window.Settled()
		if err := pause.Until(ctx, func() (bool, error) { return settled(), nil }); err != nil {
			return err
		}
	}
	return nil
}

// setOpen notes that a subscription has begun or has ended.
func (b *Broker) setOpen(s *subscription, open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open[s] = open; !open {
		delete(b.open, s)
	}
}

// subscriptions returns the subscriptions that fit, and that have found their consumer.
func (b *Broker) subscriptions(fits func(*subscription) bool) (subs []*subscription) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.open {
		if fits(s) && s.begun() {
			subs = append(subs, s)
		}
	}
	return subs
}

// lastCommand returns the sequence of the last command in the stream, 0 if there is
// none.
func (b *Broker) lastCommand(ctx context.Context, s *session) (uint64, error) {
	last, _, err := b.get(ctx, s, b.opt.Stream, getRequest{Last: b.opt.Routing.Subscription()})
	if err != nil {
		return 0, fmt.Errorf("last command of stream %s: %w", b.opt.Stream, err)
	}
	return last.Sequence, nil
}

// maxBarriers is the most requests until receiveAll gives up on the answer that nothing
// is waiting. While new messages keep coming the server may never give it.
const maxBarriers = 10

// receiveAll waits until the subscriptions of this process have received everything that
// the server has delivered to them. It asks for a message that the consumer has now: the
// server sends its answer behind everything that it has delivered to this process before.
func (b *Broker) receiveAll(ctx context.Context, session *session, durable string, subs []*subscription) error {
	asked := 0
	return pause.Until(ctx, func() (bool, error) {
		request := b.api("CONSUMER.MSG.NEXT." + b.opt.Stream + "." + durable)
		answer, err := b.request(ctx, session, request, []byte(`{"batch": 1, "no_wait": true}`))
		if err != nil {
			return false, fmt.Errorf("consumer %s: %w", durable, err)
		}
		for _, s := range subs {
			if err := s.pass(ctx, answer); err != nil {
				return false, err
			}
			answer = &natsgo.Msg{Header: answer.Header} // only one subscription gets the message
		}
		asked++
		return asked == maxBarriers || answer.Header.Get("Status") == "404", nil
	})
}

// pass returns when the subscription has received everything that has arrived, and then
// the answer, if that is a message of the stream.
func (s *subscription) pass(ctx context.Context, answer *natsgo.Msg) error {
	for range 2 { // it takes the second one when it has received the first
		select {
		case s.barrier <- answer:
			answer = new(natsgo.Msg)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// begun reports whether the consumer was found.
func (s *subscription) begun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.created.IsZero()
}

// held returns how many messages the subscriptions hold.
func held(subs []*subscription) (n int) {
	for _, s := range subs {
		s.mu.Lock()
		n += len(s.held)
		s.mu.Unlock()
	}
	return n
}
