package kafka

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/event-service-agent/timer-service/internal/pause"
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

// CatchUp waits until all messages below the current ends of the partitions are handled,
// or wait for their retry. For a partition that another process reads, it waits until
// that process has committed them.
func (b *Broker) CatchUp(ctx context.Context, role string) error {
	extents, err := b.extents(ctx, b.opt.Routing.CommandsOf(anyTenant))
	if err != nil {
		return err
	}
	unread := make(map[partition]int64) // ends of the partitions that are not read up to there
	for _, e := range extents {
		if e.start < e.end {
			unread[e.partition] = e.end
		}
	}
	id := b.commandsOf(role)
	return pause.Until(ctx, func() (bool, error) {
		if g := b.group(id); g != nil {
			g.handled(unread)
		}
		if len(unread) == 0 {
			return true, nil
		}
		return false, b.ask(ctx, func(ctx context.Context, admin *kadm.Client) error {
			committed, err := committedBy(ctx, admin, id.name())
			maps.DeleteFunc(unread, func(p partition, end int64) bool {
				o, _ := committed.Lookup(p.topic, p.number)
				return o.At >= end
			})
			return err
		})
	})
}

// handled deletes the partitions of which all messages below the end are handled here, or
// wait for their retry.
func (g *group) handled(unread map[partition]int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.DeleteFunc(unread, func(id partition, end int64) bool {
		p := g.parts[id]
		return p != nil && !p.leaving && p.next >= end && !p.has(end, polled, queued, inFlight)
	})
}
