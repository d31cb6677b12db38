package rabbitmq

import (
	"context"
	"fmt"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/connection"
)

// Inspect returns what the server is, and who owns the commands that a role takes. It
// connects by itself: Run need not run.
func (b *Broker) Inspect(ctx context.Context, role string) (found broker.Inspection, err error) {
	if err := b.opt.check(); err != nil {
		return found, err
	}
	servers, err := servers(b.opt.URL)
	if err != nil {
		return found, err
	}
	conn, err := b.dial(ctx, servers, "inspect", nil, func() {})
	if err != nil {
		return found, fmt.Errorf("%w: %w", connection.ErrNotConnected, err)
	}
	defer conn.end()
	defer context.AfterFunc(ctx, func() { _ = conn.network.Close() })()
	found.Version = "RabbitMQ " + conn.version()
	found.Keeps = fmt.Sprintf("exchange %s, %s queues, until a message is acked", b.opt.Exchange, b.opt.QueueType)
	owner, err := b.ownerOf(b.queueOf(role, b.opt.Routing.Subscription()), conn).read(ctx)
	found.Owner = broker.ParseOwner(owner)
	return found, err
}
