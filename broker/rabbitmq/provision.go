package rabbitmq

import (
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/connection"
)

// Provision declares the exchange, the queue of commands with its retry queues, and
// that of dead letters without a tenant; or, if dry, only returns what is missing.
// The queues of tenants are declared before the first message is published to them.
// An exchange or a queue that exists must fit. A user without the permission to
// configure it learns only whether it exists.
func (b *Broker) Provision(ctx context.Context, dry bool) (changes []broker.Change, err error) {
	err = b.connected(ctx, "provision", func(conn *serverConn) error {
		changes, err = b.provision(conn, dry)
		return err
	})
	return changes, err
}

// connected has f use a connection of its own, whether Run runs or not.
func (b *Broker) connected(ctx context.Context, part string, f func(*serverConn) error) error {
	if err := b.opt.check(); err != nil {
		return err
	}
	servers, err := servers(b.opt.URL)
	if err != nil {
		return err
	}
	conn, err := b.dial(ctx, servers, part, nil, func() {})
	if err != nil {
		return fmt.Errorf("%w: %w", connection.ErrNotConnected, err)
	}
	defer conn.end()
	defer context.AfterFunc(ctx, func() { _ = conn.network.Close() })()
	return f(conn)
}

func (b *Broker) provision(conn *serverConn, dry bool) (changes []broker.Change, err error) {
	apply := func(f func(*amqp.Channel) error) error {
		if dry {
			return nil
		}
		return onChannel(conn, f)
	}
	missing, err := compare(conn, b.hasExchange, b.declareExchange)
	if err != nil {
		return nil, b.explain("exchange "+b.opt.Exchange, err)
	}
	if missing {
		changes = append(changes, broker.Change{Object: "exchange " + b.opt.Exchange, Detail: "direct, durable"})
		if err := apply(b.declareExchange); err != nil {
			return nil, b.explain("exchange "+b.opt.Exchange, err)
		}
	}
	all := b.required()
	for _, q := range append(all, retryQueues(all[0])...) {
		declare := func(ch *amqp.Channel) error { return q.declare(ch, conn.version()) }
		absent, err := compare(conn, q.exists, declare)
		if err != nil {
			return changes, b.explain("queue "+q.name, err)
		}
		if err := apply(func(ch *amqp.Channel) error {
			if err := declare(ch); err != nil {
				return err
			}
			return q.bind(ch, b.opt.Exchange)
		}); err != nil {
			return changes, b.explain("queue "+q.name, err)
		}
		switch {
		case absent:
			changes = append(changes, broker.Change{Object: "queue " + q.name, Detail: q.describe(b.opt)})
		case missing:
			changes = append(changes, broker.Change{Object: "binding of queue " + q.name, Detail: "to exchange " + b.opt.Exchange + " under the key " + q.key})
		}
	}
	return changes, nil
}

// compare reports whether something is missing. If it is there it is declared,
// which changes nothing, and fails if it is another.
func compare(conn *serverConn, exists, declare func(*amqp.Channel) error) (missing bool, err error) {
	if err = onChannel(conn, exists); code(err) == amqp.NotFound {
		return true, nil
	}
	if err == nil {
		err = ifPermitted(onChannel(conn, declare))
	}
	return false, err
}

// onChannel has f use a channel of its own, which an error breaks.
func onChannel(conn *serverConn, f func(*amqp.Channel) error) error {
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	if err := f(ch); err != nil {
		return err
	}
	return ch.Close()
}
