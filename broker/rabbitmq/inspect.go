package rabbitmq

import (
	"context"
	"fmt"

	"github.com/event-service-agent/timer-service/broker"
)

// Inspect describes the server and the owner of the commands that a role takes. It makes
// its own connection: Run need not run.
func (b *Broker) Inspect(ctx context.Context, role string) (found broker.Inspection, err error) {
	err = b.connected(ctx, "inspect", func(conn *serverConn) error {
		found.Version = "RabbitMQ " + conn.version()
		found.Keeps = fmt.Sprintf("exchange %s, %s queues, until a message is acked", b.opt.Exchange, b.opt.QueueType)
		owner, err := b.ownerOf(b.queueOf(role, b.opt.Routing.Subscription()), conn).read(ctx)
		found.Owner = broker.ParseOwner(owner)
		return err
	})
	return found, err
}
