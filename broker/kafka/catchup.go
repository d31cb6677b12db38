package kafka

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/event-service-agent/timer-service/broker"
)

// Interruptions returns how often requests for messages have begun to fail, or the cluster
// has begun not to answer, and why it is away now. The client library reconnects by itself.
func (b *Broker) Interruptions() (int64, error) {
	n := b.outages.Load()
	_, away := b.keeper.Current()
	return n, away
}

// outages counts how often messages have stopped to come from a server, that is, how
// often a request for them failed after one that did not.
type outages struct {
	atomic.Int64
	mu     sync.Mutex
	broken map[int32]bool // servers whose last request failed
}

// OnBrokerE2E is called by the client library after each request.
func (o *outages) OnBrokerE2E(server kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	err := e2e.Err()
	if key != int16(kmsg.Fetch) || errors.Is(err, context.Canceled) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil && !o.broken[server.NodeID] {
		o.Add(1)
	}
	o.broken[server.NodeID] = err != nil
}

// CatchUp waits until all messages below the current ends of the partitions are committed.
func (b *Broker) CatchUp(ctx context.Context, role string) error {
	return broker.AwaitFloor(ctx, b, role)
}
