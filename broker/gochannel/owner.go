package gochannel

import (
	"context"

	"github.com/event-service-agent/timer-service/broker"
)

// Claim keeps the owner in memory, whether Run runs or not.
func (b *Broker) Claim(_ context.Context, role string, owner broker.Owner, takeover bool) (broker.Owner, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	kept, found := b.owners[role]
	switch {
	case found && (kept.Database == owner.Database || !takeover):
		return kept, nil
	case found:
		owner.Broker = kept.Broker
	}
	b.owners[role] = owner
	return owner, nil
}
