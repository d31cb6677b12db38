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

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/connection"
	"github.com/event-service-agent/timer-service/internal/pause"
)

// History returns b, since Kafka keeps messages that were acked.
func (b *Broker) History() (broker.History, string) { return b, "" }

// ask calls f with a client for requests about topics and groups, for at most apiTimeout. An
// error of f that is not the answer of a server becomes a [connection.ErrNotConnected].
func (b *Broker) ask(ctx context.Context, f func(context.Context, *kadm.Client) error) error {
	client, err := b.keeper.Current()
	if err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	return unanswered(ctx, f(asking, kadm.NewClient(client)))
}

// unanswered makes an error a [connection.ErrNotConnected], unless the cluster has answered or
// ctx is done.
func unanswered(ctx context.Context, err error) error {
	if _, answered := errors.AsType[*kerr.Error](err); err == nil || answered || ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("%w with Kafka: %w", connection.ErrNotConnected, err)
}

// Logs returns the partitions of all kinds. The floor of a partition of commands is its
// committed offset, or the first one that there is, and so is Delivered, since Kafka redelivers all records above it.
// Bytes and MaxBytes are those of the fullest disk.
func (b *Broker) Logs(ctx context.Context, role string) (logs []broker.Log, err error) {
	err = b.ask(ctx, func(ctx context.Context, admin *kadm.Client) error {
		if logs, err = b.commandLogs(ctx, admin, role); err != nil {
			return err
		}
		for _, kind := range []broker.Kind{broker.Events, broker.DeadLetter} {
			extents, err := extentsOf(ctx, admin, b.opt.Routing.TopicOf(kind, anyTenant))
			if err != nil {
				return err
			}
			for _, e := range extents {
				logs = append(logs, broker.Log{Name: e.log, Kind: kind, First: e.start + 1, Last: e.end, Floor: e.end})
			}
		}
		fullest := b.disk.Load().(disk)
		for i := range logs {
			logs[i].Bytes, logs[i].MaxBytes, logs[i].Limit = fullest.used, fullest.size, "disk of a server"
		}
		return nil
	})
	return logs, err
}

func (b *Broker) commandLogs(ctx context.Context, admin *kadm.Client, role string) (logs []broker.Log, err error) {
	extents, err := extentsOf(ctx, admin, b.opt.Routing.CommandsOf(anyTenant))
	if err != nil || len(extents) == 0 {
		return nil, err
	}
	var topics []string
	for _, e := range extents {
		topics = append(topics, e.topic)
	}
	committed, err := committedBy(ctx, admin, b.commandsOf(role).name())
	if err != nil {
		return nil, err
	}
	first, err := admin.ListOffsetsAfterMilli(ctx, 0, topics...)
	if err != nil {
		return nil, fmt.Errorf("find the oldest commands: %w", err)
	}
	for _, e := range extents {
		offset, _ := committed.Lookup(e.topic, e.number)
		floor := max(offset.At, e.start) // nothing waits for records that were removed
		log := broker.Log{Name: e.log, Kind: broker.Commands, First: e.start + 1, Floor: floor, Delivered: floor, Last: max(e.end, floor)}
		if o, ok := first.Lookup(e.topic, e.number); ok && e.start < e.end && o.Timestamp > 0 {
			log.Oldest = time.UnixMilli(o.Timestamp).UTC()
		}
		logs = append(logs, log)
		b.name(e.log)
	}
	return logs, nil
}

// committedBy returns the offsets that a group has committed.
func committedBy(ctx context.Context, admin *kadm.Client, group string) (kadm.OffsetResponses, error) {
	var offsets kadm.OffsetResponses
	err := coordinated(ctx, func() (err error) {
		offsets, err = admin.FetchOffsets(ctx, group)
		return cmp.Or(err, offsets.Error())
	})
	if errors.Is(err, kerr.GroupIDNotFound) { // the group is new
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find what group %s has committed: %w", group, err)
	}
	return offsets, nil
}

// coordinated calls f, a request about a group, again while the group has no coordinator. The
// client library does not. The first request on a new cluster makes the topic of the
// offsets, and coordinators move when a broker ends.
func coordinated(ctx context.Context, f func() error) error {
	return pause.Until(ctx, func() (bool, error) {
		err := f()
		moves := errors.Is(err, kerr.CoordinatorNotAvailable) || errors.Is(err, kerr.CoordinatorLoadInProgress) || errors.Is(err, kerr.NotCoordinator)
		if moves && ctx.Err() == nil {
			return false, nil
		}
		return true, err
	})
}

// An extent is the range of offsets that a partition holds.
type extent struct {
	partition
	id    kadm.TopicID
	log   string // as in [timer.Number]
	start int64  // the first offset
	end   int64  // the offset after the last
}

// extents returns the extents of all partitions of the topics that a filter matches.
func (b *Broker) extents(ctx context.Context, filter string) (extents []extent, err error) {
	err = b.ask(ctx, func(ctx context.Context, admin *kadm.Client) (err error) {
		extents, err = extentsOf(ctx, admin, filter)
		return err
	})
	return extents, err
}

// extentsOf returns the extents of all partitions of the topics that a filter matches, in
// their order. The error is a [broker.ErrDenied] if this user may not read one of them:
// without this check a reader would wait for messages for ever.
func extentsOf(ctx context.Context, admin *kadm.Client, filter string) (extents []extent, err error) {
	found, err := topicsLike(kadm.WithAuthorizedOps(ctx), admin, filter)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	starts, err := admin.ListStartOffsets(ctx, found.Names()...)
	if err = cmp.Or(err, starts.Error()); err != nil {
		return nil, fmt.Errorf("find the first offsets of %s: %w", filter, err)
	}
	ends, err := admin.ListCommittedOffsets(ctx, found.Names()...)
	if err = cmp.Or(err, ends.Error()); err != nil {
		return nil, fmt.Errorf("find the last offsets of %s: %w", filter, err)
	}
	for _, topic := range found.Sorted() {
		if may := topic.AuthorizedOperations; len(may) > 0 && !slices.Contains(may, kadm.OpRead) {
			return nil, fmt.Errorf("%w: Read on topic %s: %w", broker.ErrDenied, topic.Topic, kerr.TopicAuthorizationFailed)
		}
		for _, p := range topic.Partitions.Sorted() {
			id := partition{topic.Topic, p.Partition}
			start, _ := starts.Lookup(id.topic, id.number)
			end, _ := ends.Lookup(id.topic, id.number)
			extents = append(extents, extent{id, topic.ID, logName(id, topic.ID), start.Offset, end.Offset})
		}
	}
	return extents, nil
}

// Used reports whether the consumer group of a role and the commands has a member. A member
// with the name of our Instance does not count: it is this process before its restart.
func (b *Broker) Used(ctx context.Context, role string) (used bool, err error) {
	name := b.commandsOf(role).name()
	err = b.ask(ctx, func(ctx context.Context, admin *kadm.Client) error {
		var groups kadm.DescribedGroups
		err := coordinated(ctx, func() (err error) {
			groups, err = admin.DescribeGroups(ctx, name)
			return cmp.Or(err, groups[name].Err)
		})
		if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			return fmt.Errorf("find the members of group %s: %w", name, err)
		}
		used = slices.ContainsFunc(groups[name].Members, func(m kadm.DescribedGroupMember) bool {
			return b.opt.Instance == "" || m.InstanceID == nil || *m.InstanceID != b.opt.Instance
		})
		return nil
	})
	return used, err
}
