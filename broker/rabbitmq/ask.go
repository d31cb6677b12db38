package rabbitmq

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"
)

// An admin asks the server about exchanges and queues, one question at a time:
// that is all that a channel can.
type admin struct {
	slot    chan struct{} // holds one while something is asked
	conn    *connection   // that the channel is of
	channel *amqp.Channel // nil, or closed, if it has to be opened
}

// ask has f ask the server on a channel that no one else uses. F may break the
// channel. It returns when ctx is done, though f may still wait for an answer.
func (b *Broker) ask(ctx context.Context, f func(*amqp.Channel) error) error {
	conn, err := b.main.current()
	if err != nil {
		return err
	}
	return b.askOn(ctx, conn, f)
}

func (b *Broker) askOn(ctx context.Context, conn *connection, f func(*amqp.Channel) error) error {
	return b.alone(ctx, b.admin.slot, func() error {
		a := &b.admin
		if a.conn != conn || a.channel == nil || a.channel.IsClosed() {
			channel, err := conn.Channel()
			if err != nil {
				return err
			}
			a.conn, a.channel = conn, channel
		}
		return f(a.channel)
	})
}

// alone returns what f does, as within does, while it holds the slot.
func (b *Broker) alone(ctx context.Context, slot chan struct{}, f func() error) error {
	return b.within(ctx, func() error {
		select {
		case slot <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { <-slot }()
		return f()
	})
}

// within returns what f does, or the error of ctx if that ends first: the client
// library waits for an answer as long as the connection lives.
func (b *Broker) within(ctx context.Context, f func() error) error {
	if !b.term.Add(&b.asks) {
		return ErrClosed
	}
	answer := make(chan error, 1)
	go func() {
		defer b.asks.Done()
		answer <- f()
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
