package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/timer"
)

// A second group next to a consumer group keeps its owner: as the metadata of a committed
// offset, which has no other meaning. Kafka can't compare before it writes. If several
// processes write at once, the last one is the owner, so each reads again after
// ownerPause. Kafka forgets the offsets of a group without members after seven days by
// default (offsets.retention.minutes), so a running service writes again at intervals.
const (
	ownerSuffix  = ".owner"
	ownerPause   = 500 * time.Millisecond // longer than another process takes from reading to writing
	ownerRefresh = time.Hour              // how often a running service writes its owner again
)

// Claim keeps the owner of the consumer group of a role and the commands.
func (b *Broker) Claim(ctx context.Context, role string, owner broker.Owner, takeover bool) (broker.Owner, error) {
	client, err := b.keeper.Current()
	if err != nil {
		return broker.Owner{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	kept, err := b.owner(ctx, client, role)
	if err != nil {
		return broker.Owner{}, err
	}
	switch ours := kept.Database == owner.Database; {
	case ours && !b.outdated(role), kept.Database != "" && !ours && !takeover:
		return kept, nil
	case ours:
		owner = kept
	case kept.Database != "":
		owner.Broker = kept.Broker
	}
	if err := b.own(ctx, client, role, owner); err != nil {
		return broker.Owner{}, err
	}
	if !pause.For(ctx, ownerPause) {
		return broker.Owner{}, ctx.Err()
	}
	return b.owner(ctx, client, role)
}

// ownerGroup returns the group whose offset keeps the owner of a role's commands.
func (b *Broker) ownerGroup(role string) string {
	return b.commandsOf(role).name() + ownerSuffix
}

// ownerTopic returns the topic of which the offset is committed. It is a topic that
// exists.
func (b *Broker) ownerTopic() string {
	if topics := b.fixed(); len(topics) > 0 {
		return topics[0]
	}
	return b.opt.Routing.DeadLettersOf(timer.NoTenant)
}

// outdated reports whether the owner of a role's commands has to be written again.
func (b *Broker) outdated(role string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return clock().Sub(b.owned[role]) > ownerRefresh
}

// owner returns the owner of a role's commands, or the zero Owner if there is none.
func (b *Broker) owner(ctx context.Context, client *kgo.Client, role string) (owner broker.Owner, err error) {
	offsets, err := committedBy(ctx, kadm.NewClient(client), b.ownerGroup(role))
	if err != nil {
		return owner, fmt.Errorf("find the owner of the commands: %w", err)
	}
	for _, offset := range offsets.Sorted() { // one; the library guesses its topic
		if owner = broker.ParseOwner(offset.Metadata); owner.Database != "" {
			break
		}
	}
	return owner, nil
}

// own writes owner as the owner of a role's commands, and notes the time.
func (b *Broker) own(ctx context.Context, client *kgo.Client, role string, owner broker.Owner) error {
	topic := b.ownerTopic()
	if _, err := b.ensure(ctx, client, topic); err != nil {
		return err
	}
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: topic, LeaderEpoch: -1, Metadata: owner.String()})
	// The answer is not used. But asking for permissions makes the client library look up
	// the topic again, which may have been made a moment ago (kadm v1.19.0).
	err := coordinated(ctx, func() error {
		return kadm.NewClient(client).CommitAllOffsets(kadm.WithAuthorizedOps(ctx), b.ownerGroup(role), offsets)
	})
	if err != nil {
		return fmt.Errorf("own the commands: group %s: %w", b.ownerGroup(role), err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.owned[role] = clock()
	return nil
}
