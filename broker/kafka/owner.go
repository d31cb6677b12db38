package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/timer"
)

// The owner of a consumer group is the metadata of an offset that a group beside it
// has committed, and that has no other meaning. Kafka can't compare before it writes:
// the last of those that write at once is the owner, so each reads again after a
// while. Kafka forgets the offsets of a group without members after seven days by
// default (offsets.retention.minutes), so a service that runs writes again.
const (
	ownerSuffix  = ".owner"
	ownerPause   = 500 * time.Millisecond // longer than others take from reading to writing
	ownerRefresh = time.Hour
)

// Claim keeps the owner of the consumer group of a role and the commands.
func (b *Broker) Claim(ctx context.Context, role string, owner broker.Owner, takeover bool) (broker.Owner, error) {
	client, err := b.keeper.Current()
	if err != nil {
		return broker.Owner{}, err
	}
	at := ownerOffset{
		client: kadm.NewClient(client),
		group:  groupID{role, b.opt.Routing.Subscription()}.name(b.opt.Prefix) + ownerSuffix,
		topic:  b.ownerTopic(),
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	kept, found, err := at.read(ctx)
	switch {
	case err != nil:
		return broker.Owner{}, err
	case found && kept.Database == owner.Database && !b.outdated(at.group):
		return kept, nil
	case found && kept.Database == owner.Database:
		return kept, b.write(ctx, client, at, kept)
	case found && !takeover:
		return kept, nil
	case found:
		owner.Broker = kept.Broker
	}
	if err := b.write(ctx, client, at, owner); err != nil {
		return broker.Owner{}, err
	}
	if !pause.For(ctx, ownerPause) {
		return broker.Owner{}, ctx.Err()
	}
	kept, _, err = at.read(ctx)
	return kept, err
}

// ownerTopic returns the topic of which the offset is committed: one that is there.
func (b *Broker) ownerTopic() string {
	if topics := b.fixed(); len(topics) > 0 {
		return topics[0]
	}
	return b.opt.Routing.DeadLettersOf(timer.NoTenant)
}

// outdated reports whether an owner has to be written again.
func (b *Broker) outdated(group string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.opt.Clock.Now().Sub(b.owned[group]) > ownerRefresh
}

// write writes an owner, and notes when.
func (b *Broker) write(ctx context.Context, client *kgo.Client, at ownerOffset, owner broker.Owner) error {
	if err := b.ensure(ctx, client, at.topic); err != nil {
		return err
	}
	if err := at.write(ctx, owner); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.owned[at.group] = b.opt.Clock.Now()
	return nil
}

// An ownerOffset is where an owner is kept.
type ownerOffset struct {
	client       *kadm.Client
	group, topic string
}

// read returns the owner, and whether there is one.
func (o ownerOffset) read(ctx context.Context) (owner broker.Owner, found bool, err error) {
	offsets, err := o.client.FetchOffsets(ctx, o.group)
	if errors.Is(err, kerr.GroupIDNotFound) { // none was committed yet
		return owner, false, nil
	}
	if err != nil {
		return owner, false, fmt.Errorf("find the owner of the commands: group %s: %w", o.group, err)
	}
	for _, offset := range offsets.Sorted() { // there is one, whose topic is the client library's guess
		switch {
		case offset.Err != nil:
			return owner, false, fmt.Errorf("find the owner of the commands: group %s: %w", o.group, offset.Err)
		case offset.Metadata != "":
			return broker.ParseOwner(offset.Metadata), true, nil
		}
	}
	return owner, false, nil
}

// write makes owner the owner.
func (o ownerOffset) write(ctx context.Context, owner broker.Owner) error {
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: o.topic, LeaderEpoch: -1, Metadata: owner.String()})
	// What is asked for here is not used. But it has the client library find the topic
	// anew, which may have been made a moment ago (kadm v1.19.0).
	responses, err := o.client.CommitOffsets(kadm.WithAuthorizedOps(ctx), o.group, offsets)
	if err = errors.Join(err, responses.Error()); err != nil {
		return fmt.Errorf("own the commands: group %s: %w", o.group, err)
	}
	return nil
}
