package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/event-service-agent/timer-service/broker"
)

// History returns b: Kafka keeps what was read.
func (b *Broker) History() (broker.History, string) { return b, "" }

// Logs returns the partitions of the commands. Kafka delivers all above the committed
// offset again. What they take is that of the fullest disk.
func (b *Broker) Logs(ctx context.Context, role string) ([]broker.Log, error) {
	client, err := b.keeper.Current()
	if err != nil {
		return nil, err
	}
	asking, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	admin, group := kadm.NewClient(client), groupID{role, b.opt.Routing.Subscription()}.name(b.opt.Prefix)
	logs, err := logsOf(asking, admin, group, b.opt.Routing.Commands)
	if err != nil {
		return nil, unanswered(ctx, fmt.Errorf("read the commands of group %s: %w", group, err))
	}
	disk := b.fullestDisk(asking, admin)
	for i := range logs {
		logs[i].Bytes, logs[i].MaxBytes = disk.used, disk.size
	}
	return logs, nil
}

func logsOf(ctx context.Context, admin *kadm.Client, group, template string) (logs []broker.Log, err error) {
	extents, err := extentsOf(ctx, admin, template)
	if err != nil || len(extents) == 0 {
		return nil, err
	}
	committed, err := committedBy(ctx, admin, group)
	if err != nil {
		return nil, err
	}
	first, err := admin.ListOffsetsAfterMilli(ctx, 0, topicsOf(extents)...)
	if err != nil {
		return nil, err
	}
	for _, e := range extents {
		acked := committed[e.partition]
		log := broker.Log{Name: e.log, Acked: acked, Delivered: acked, Last: e.end}
		if o, ok := first.Lookup(e.topic, e.number); ok && e.start < e.end && o.Timestamp > 0 {
			log.Oldest = time.UnixMilli(o.Timestamp).UTC()
		}
		logs = append(logs, log)
	}
	return logs, nil
}

// committedBy returns the offsets that a group has committed.
func committedBy(ctx context.Context, admin *kadm.Client, group string) (map[partition]int64, error) {
	offsets, err := admin.FetchOffsets(ctx, group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) { // it is new
		return nil, err
	}
	committed := make(map[partition]int64)
	for _, o := range offsets.Sorted() {
		if o.Err != nil {
			return nil, o.Err
		}
		committed[partition{o.Topic, o.Partition}] = max(0, o.At)
	}
	return committed, nil
}

// An extent is what a partition holds.
type extent struct {
	partition
	log   string // as in [timer.Position]
	start int64  // the first offset
	end   int64  // the offset after the last
}

// extentsOf returns what the partitions of the topics of a template hold, in their order.
func extentsOf(ctx context.Context, admin *kadm.Client, template string) (extents []extent, err error) {
	found, err := topicsLike(ctx, admin, template)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	starts, err := admin.ListStartOffsets(ctx, found.Names()...)
	if err != nil {
		return nil, err
	}
	ends, err := admin.ListCommittedOffsets(ctx, found.Names()...)
	if err != nil {
		return nil, err
	}
	for _, topic := range found.Sorted() {
		for _, p := range topic.Partitions.Sorted() {
			id := partition{topic.Topic, p.Partition}
			start, err := offsetIn(starts, id)
			if err != nil {
				return nil, err
			}
			end, err := offsetIn(ends, id)
			if err != nil {
				return nil, err
			}
			extents = append(extents, extent{id, logName(id, topic.ID), start, end})
		}
	}
	return extents, nil
}

func offsetIn(listed kadm.ListedOffsets, p partition) (int64, error) {
	o, ok := listed.Lookup(p.topic, p.number)
	if err := o.Err; err != nil || !ok {
		return 0, fmt.Errorf("topic %s, partition %d: %w", p.topic, p.number, cmp.Or(err, error(kerr.UnknownTopicOrPartition)))
	}
	return o.Offset, nil
}

func topicsOf(extents []extent) (topics []string) {
	for _, e := range extents {
		if !slices.Contains(topics, e.topic) {
			topics = append(topics, e.topic)
		}
	}
	return topics
}

// topicsLike returns the topics of a template that are there.
func topicsLike(ctx context.Context, admin *kadm.Client, template string) (kadm.TopicDetails, error) {
	var wanted []string // all
	if !strings.Contains(template, tenantToken) {
		wanted = []string{template}
	}
	// The client remembers for a while that a topic was missing, unless the answer
	// is to have the permissions.
	details, err := admin.ListTopics(kadm.WithAuthorizedOps(ctx), wanted...)
	if err != nil {
		return nil, err
	}
	for topic, d := range details {
		switch {
		case !matches(template, topic) || errors.Is(d.Err, kerr.UnknownTopicOrPartition):
			delete(details, topic)
		case d.Err != nil:
			return nil, fmt.Errorf("find topic %s: %w", topic, d.Err)
		}
	}
	return details, nil
}

// Used reports whether the consumer group of a role and the commands has a member that
// is not this process. One of our own name is this process before it was started again.
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
	own := b.memberOf(id)
	return slices.ContainsFunc(groups[name].Members, func(m kadm.DescribedGroupMember) bool {
		if b.opt.Instance != "" && m.InstanceID != nil {
			return *m.InstanceID != b.opt.Instance
		}
		return m.MemberID != own
	}), nil
}

// memberOf returns the id of this process as a member of a group, empty if it is none.
func (b *Broker) memberOf(id groupID) string {
	g := b.group(id)
	if g == nil {
		return ""
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.member == nil {
		return ""
	}
	own, _ := g.member.GroupMetadata()
	return own
}
