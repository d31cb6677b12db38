package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/broker"
)

// History returns b, since Kafka keeps messages that were acked.
func (b *Broker) History() (broker.History, string) { return b, "" }

// Logs returns the partitions of the commands. Delivered is the committed offset, since
// Kafka redelivers everything above it. Bytes and MaxBytes are those of the fullest disk.
func (b *Broker) Logs(ctx context.Context, role string) ([]broker.Log, error) {
	client, err := b.keeper.Current()
	if err != nil {
		return nil, err
	}
	logs, err := b.logs(ctx, client, role)
	if err != nil {
		return nil, err
	}
	disk := b.fullestDisk(ctx, kadm.NewClient(client))
	for i := range logs {
		logs[i].Bytes, logs[i].MaxBytes = disk.used, disk.size
	}
	return logs, nil
}

func (b *Broker) logs(ctx context.Context, client *kgo.Client, role string) (logs []broker.Log, err error) {
	extents, err := extentsOf(ctx, client, b.opt.Routing.CommandsOf(anyTenant))
	if err != nil || len(extents) == 0 {
		return nil, err
	}
	var topics []string
	for _, e := range extents {
		topics = append(topics, e.topic)
	}
	asking, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	admin, group := kadm.NewClient(client), groupID{role, b.opt.Routing.Subscription()}.name(b.opt.Prefix)
	committed, err := committedBy(asking, admin, group)
	if err != nil {
		return nil, unanswered(ctx, err)
	}
	first, err := admin.ListOffsetsAfterMilli(asking, 0, topics...)
	if err != nil {
		return nil, unanswered(ctx, fmt.Errorf("find the oldest commands: %w", err))
	}
	for _, e := range extents {
		offset, _ := committed.Lookup(e.topic, e.number)
		acked := max(0, offset.At)
		log := broker.Log{Name: e.log, Acked: acked, Delivered: acked, Last: e.end}
		if o, ok := first.Lookup(e.topic, e.number); ok && e.start < e.end && o.Timestamp > 0 {
			log.Oldest = time.UnixMilli(o.Timestamp).UTC()
		}
		logs = append(logs, log)
	}
	return logs, nil
}

// committedBy returns the offsets that a group has committed.
func committedBy(ctx context.Context, admin *kadm.Client, group string) (kadm.OffsetResponses, error) {
	offsets, err := admin.FetchOffsets(ctx, group)
	if errors.Is(err, kerr.GroupIDNotFound) { // the group is new
		return nil, nil
	}
	if err = cmp.Or(err, offsets.Error()); err != nil {
		return nil, fmt.Errorf("find what group %s has committed: %w", group, err)
	}
	return offsets, nil
}

// An extent is the range of offsets that a partition holds.
type extent struct {
	partition
	log   string // as in [timer.Position]
	start int64  // the first offset
	end   int64  // the offset after the last
}

// extentsOf returns the extents of all partitions of the topics that a filter matches, in
// their order.
func extentsOf(ctx context.Context, client *kgo.Client, filter string) (extents []extent, err error) {
	asking, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	admin := kadm.NewClient(client)
	found, err := topicsLike(kadm.WithAuthorizedOps(asking), admin, filter)
	if err != nil || len(found) == 0 {
		return nil, unanswered(ctx, err)
	}
	starts, err := admin.ListStartOffsets(asking, found.Names()...)
	if err = cmp.Or(err, starts.Error()); err != nil {
		return nil, unanswered(ctx, fmt.Errorf("find the first offsets of %s: %w", filter, err))
	}
	ends, err := admin.ListCommittedOffsets(asking, found.Names()...)
	if err = cmp.Or(err, ends.Error()); err != nil {
		return nil, unanswered(ctx, fmt.Errorf("find the last offsets of %s: %w", filter, err))
	}
	for _, topic := range found.Sorted() {
		for _, p := range topic.Partitions.Sorted() {
			id := partition{topic.Topic, p.Partition}
			start, _ := starts.Lookup(id.topic, id.number)
			end, _ := ends.Lookup(id.topic, id.number)
			extents = append(extents, extent{id, logName(id, topic.ID), start.Offset, end.Offset})
		}
	}
	return extents, nil
}

// Used reports whether the consumer group of a role and the commands has a member other
// than this process. A member with the name of our Instance is this process before its
// restart.
func (b *Broker) Used(ctx context.Context, role string) (bool, error) {
	client, err := b.keeper.Current()
	if err != nil {
		return false, err
	}
	asking, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	id := groupID{role, b.opt.Routing.Subscription()}
	name := id.name(b.opt.Prefix)
	groups, err := kadm.NewClient(client).DescribeGroups(asking, name)
	if err == nil && !errors.Is(groups[name].Err, kerr.GroupIDNotFound) {
		err = groups[name].Err
	}
	if err != nil {
		return false, unanswered(ctx, fmt.Errorf("find the members of group %s: %w", name, err))
	}
	own := b.group(id).memberID()
	return slices.ContainsFunc(groups[name].Members, func(m kadm.DescribedGroupMember) bool {
		if b.opt.Instance != "" && m.InstanceID != nil {
			return *m.InstanceID != b.opt.Instance
		}
		return m.MemberID != own
	}), nil
}

// memberID returns the id of this process as a member of the group, or "" if it is not a
// member.
func (g *group) memberID() (id string) {
	if g == nil {
		return ""
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.member != nil {
		id, _ = g.member.GroupMetadata()
	}
	return id
}
