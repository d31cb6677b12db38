package rabbitmq

import (
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/connection"
)

// Provision declares the exchange, the queue of commands, and the queue of dead letters
// without a tenant. If dry, it only returns the missing objects. Queues
// of tenants are declared before the first message is published to them. An existing
// exchange or queue must fit. A user without the permission to configure it learns only
// whether it exists.
func (b *Broker) Provision(ctx context.Context, dry bool) (changes []broker.Change, err error) {
	err = b.connected(ctx, "provision", func(conn *serverConn) error {
		changes, err = b.provision(conn, dry)
		return err
	})
	return changes, err
}

// connected calls f with a connection of its own, so that Run need not run.
func (b *Broker) connected(ctx context.Context, part string, f func(*serverConn) error) error {
	if b.unfit != nil {
		return b.unfit
	}
	conn, err := b.dial(ctx, part, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", connection.ErrNotConnected, err)
	}
	defer conn.end()
	defer context.AfterFunc(ctx, func() { _ = conn.network.Close() })()
	return f(conn)
}

func (b *Broker) provision(conn *serverConn, dry bool) (changes []broker.Change, err error) {
	for _, o := range b.required(conn) {
		err := onChannel(conn, o.compare)
		absent := code(err) == amqp.NotFound
		if absent {
			err = nil
		}
		if err == nil && !dry {
			err = onChannel(conn, o.make)
		}
		if err != nil {
			return changes, b.explain(o, err)
		}
		if absent {
			changes = append(changes, broker.Change{Object: o.name, Detail: o.detail})
		}
	}
	return changes, nil
}
