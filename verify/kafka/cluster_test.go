package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/verify/crash"
	"github.com/event-service-agent/timer-service/verify/crash/history"
	"github.com/event-service-agent/timer-service/verify/internal/harness"
	"github.com/event-service-agent/timer-service/verify/internal/kafkanode"
)

// What the service has at the broker, by default.
const (
	commands = "timer.commands"
	events   = "service.events"
	group    = "timer-service.timer.commands"
)

func TestMain(m *testing.M) { harness.Main(m) }

// needsKafka skips a test unless long tests are wanted, and Kafka can be started. It returns the
// version of that.
func needsKafka(t *testing.T) string {
	t.Helper()
	longtest.Skip(t, "starts Apache Kafka")
	version, err := kafkanode.Fetch()
	harness.Need(t, err)
	return version
}

// A lab is a cluster of three brokers, with a client of an operator.
type lab struct {
	*kafkanode.Cluster

	client *kgo.Client
	admin  *kadm.Client
	unread int // commands that the operator of a case took from the service before it had read them
}

func open(t *testing.T) *lab {
	t.Helper()
	c, err := kafkanode.Start(t.Context(), t.ArtifactDir(), kafkanode.Options{Nodes: 3})
	harness.Must(t, err)
	t.Cleanup(c.Kill)
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(c.URL(), ",")...), kgo.MetadataMinAge(100*time.Millisecond))
	harness.Must(t, err)
	t.Cleanup(client.Close)
	return &lab{Cluster: c, client: client, admin: kadm.NewClient(client)}
}

// A trouble is what happens to the cluster in a case.
type trouble struct {
	name  string
	times int
	harm  func(*lab, context.Context, crash.Hands) error
}

var troubles = []trouble{
	{"a broker is killed, and comes back", 3, (*lab).killBroker},
	{"the controller is killed, and comes back", 3, (*lab).killController},
	{"leaders move", 5, (*lab).moveLeaders},
	{"partitions are raised from 12 to 24", 1, (*lab).addPartitions},
	{"the commands topic is deleted and made again", 1, (*lab).remakeTopic},
	{"records below the position are deleted", 3, (*lab).deleteHandled},
	{"records above the position are deleted", 1, (*lab).deleteUnread},
	{"the group is reset to the beginning", 2, (*lab).resetToStart},
	{"the group is reset to the end", 1, (*lab).resetToEnd},
	{"a transaction hangs", 2, (*lab).hangTransaction},
	{"quotas throttle the service", 1, (*lab).throttle},
}

// TestServiceOnACluster runs each case under 300 commands a second.
func TestServiceOnACluster(t *testing.T) {
	version, l := needsKafka(t), open(t)
	table := []string{"Apache Kafka " + version + ", three brokers: case | lost | early | second ids | other violations | p99 ms | p99 of those due while it was up, ms"}
	defer func() { t.Log(strings.Join(table, "\n")) }()
	for _, tr := range troubles {
		t.Run(tr.name, func(t *testing.T) {
			l.unread = 0
			report, err := crash.Run(t.Context(), crash.Options{
				Bin: harness.Binary(t), Dir: t.ArtifactDir(), Broker: crash.Kafka, URL: l.URL(), Rate: 300, Seed: 1, Settle: time.Minute,
				Mode: crash.Outside, Kills: tr.times, Harm: func(ctx context.Context, h crash.Hands) error {
					return errors.Join(h.Rest(ctx, 5*time.Second), tr.harm(l, ctx, h))
				},
			})
			var text strings.Builder
			report.Write(&text)
			t.Log(text.String())
			lost, early, second := report.Count(history.Lost), report.Count(history.Early), report.Count(history.SecondID)
			// Without a command its timer or its dead letter is missing, or the version before fires.
			missing := lost + report.Count(history.NoDeadLetter) + report.Count(history.Superseded)
			table = append(table, fmt.Sprintf("%s | %d | %d | %d | %d | %.0f | %.0f", tr.name, lost, early, second,
				report.Violations()-lost-early-second, report.Overall.P99MS, report.WhileUp.P99MS))
			if l.unread > 0 {
				table = append(table, fmt.Sprintf("  %d commands were taken from the service before it had read them", l.unread))
			}
			wrong := report.Violations() - min(missing, l.unread)
			switch {
			case err != nil:
				t.Error(err)
			case report.Fired == 0 || report.Kills != tr.times:
				t.Errorf("%d timers fired, and it happened %d times: not much of a test", report.Fired, report.Kills)
			case wrong > 0:
				t.Errorf("%d violations, see above", wrong)
			}
		})
	}
}

// killBroker kills a broker that is not the controller, and starts it after five seconds.
func (l *lab) killBroker(ctx context.Context, h crash.Hands) error { return l.kill(ctx, h, false) }

func (l *lab) killController(ctx context.Context, h crash.Hands) error { return l.kill(ctx, h, true) }

func (l *lab) kill(ctx context.Context, h crash.Hands, controller bool) error {
	leader, err := l.controller(ctx)
	if err != nil {
		return err
	}
	for _, n := range l.Nodes() {
		if (n.ID == leader) != controller {
			continue
		}
		n.Kill()
		if err := h.Rest(ctx, 5*time.Second); err != nil {
			return err
		}
		if err := n.Start(ctx); err != nil {
			return err
		}
		return l.replicated(ctx, h)
	}
	return fmt.Errorf("no node for the controller %d", leader)
}

// replicated waits until all replicas are in sync, so that the next fault is not one too many.
func (l *lab) replicated(ctx context.Context, h crash.Hands) error {
	for {
		topics, err := l.admin.ListTopics(kadm.WithAuthorizedOps(ctx), commands, events)
		behind := 0
		topics.EachPartition(func(p kadm.PartitionDetail) {
			if len(p.ISR) < len(p.Replicas) {
				behind++
			}
		})
		if err == nil && behind == 0 {
			return nil
		}
		if err := h.Rest(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// moveLeaders makes another replica of each partition the preferred one, and the leader.
func (l *lab) moveLeaders(ctx context.Context, h crash.Hands) error {
	topics, err := l.admin.ListTopics(kadm.WithAuthorizedOps(ctx), commands, events)
	if err != nil {
		return err
	}
	var move kadm.AlterPartitionAssignmentsReq
	set := make(kadm.TopicsSet)
	topics.EachPartition(func(p kadm.PartitionDetail) {
		move.Assign(p.Topic, p.Partition, append(p.Replicas[1:len(p.Replicas):len(p.Replicas)], p.Replicas[0]))
		set.Add(p.Topic, p.Partition)
	})
	moved, err := l.admin.AlterPartitionAssignments(ctx, move)
	if err = errors.Join(err, moved.Error()); err != nil {
		return err
	}
	if err := h.Rest(ctx, 2*time.Second); err != nil {
		return err
	}
	_, err = l.admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, set)
	return errors.Join(err, h.Rest(ctx, 2*time.Second))
}

func (l *lab) addPartitions(ctx context.Context, h crash.Hands) error {
	raised, err := l.admin.UpdatePartitions(ctx, 24, commands, events)
	if err = errors.Join(err, raised.Error()); err != nil {
		return err
	}
	return h.Rest(ctx, 20*time.Second)
}

// remakeTopic deletes the commands topic, and makes it again as docs/brokers/kafka.md says.
func (l *lab) remakeTopic(ctx context.Context, h crash.Hands) error {
	if err := h.RemakeCommands(ctx, func(ctx context.Context) error {
		if _, err := l.admin.DeleteTopic(ctx, commands); err != nil {
			return err
		}
		for {
			_, err := l.admin.CreateTopic(ctx, 12, 3, map[string]*string{
				"cleanup.policy": new("delete"), "retention.ms": new("259200000"), "retention.bytes": new("-1"),
				"message.timestamp.type": new("LogAppendTime"), "min.insync.replicas": new("2"),
			}, commands)
			if err == nil || errors.Is(err, kerr.TopicAlreadyExists) { // the service may make it, too
				return h.Rest(ctx, time.Second)
			}
			if err := h.Rest(ctx, 100*time.Millisecond); err != nil {
				return err
			}
		}
	}); err != nil {
		return err
	}
	return h.Rest(ctx, 20*time.Second)
}

// positions returns the committed offsets of the group and the ends of the partitions.
func (l *lab) positions(ctx context.Context) (committed, ends kadm.Offsets, unread int, err error) {
	fetched, err := l.admin.FetchOffsets(ctx, group)
	if err != nil {
		return nil, nil, 0, err
	}
	listed, err := l.admin.ListEndOffsets(ctx, commands)
	if err = errors.Join(err, listed.Error()); err != nil {
		return nil, nil, 0, err
	}
	listed.Each(func(end kadm.ListedOffset) {
		at, _ := fetched.Lookup(commands, end.Partition)
		committed.AddOffset(commands, end.Partition, max(0, at.At), -1)
		ends.AddOffset(commands, end.Partition, end.Offset, -1)
		unread += int(end.Offset - max(0, at.At))
	})
	return committed, ends, unread, nil
}

// deleteHandled deletes what the service has handled, as the retention does.
func (l *lab) deleteHandled(ctx context.Context, h crash.Hands) error {
	committed, _, _, err := l.positions(ctx)
	if err != nil {
		return err
	}
	deleted, err := l.admin.DeleteRecords(ctx, committed)
	if err = errors.Join(err, deleted.Error()); err != nil {
		return err
	}
	return h.Rest(ctx, 3*time.Second)
}

// deleteUnread deletes commands that the service, which is down, has not read.
func (l *lab) deleteUnread(ctx context.Context, h crash.Hands) error {
	return l.whileDown(ctx, h, func(_, ends kadm.Offsets, unread int) error {
		l.unread += unread
		deleted, err := l.admin.DeleteRecords(ctx, ends)
		return errors.Join(err, deleted.Error())
	})
}

// whileDown stops the service, does something while commands wait, and starts it again.
func (l *lab) whileDown(ctx context.Context, h crash.Hands, do func(committed, ends kadm.Offsets, unread int) error) error {
	if err := h.StopService(ctx); err != nil {
		return err
	}
	if err := h.Rest(ctx, 2*time.Second); err != nil {
		return err
	}
	committed, ends, unread, err := l.positions(ctx)
	if err != nil {
		return err
	}
	if err := do(committed, ends, unread); err != nil {
		return err
	}
	if err := h.StartService(ctx); err != nil {
		return err
	}
	return h.Rest(ctx, 10*time.Second)
}

func (l *lab) resetToStart(ctx context.Context, h crash.Hands) error {
	return l.whileDown(ctx, h, func(kadm.Offsets, kadm.Offsets, int) error {
		starts, err := l.admin.ListStartOffsets(ctx, commands)
		if err = errors.Join(err, starts.Error()); err != nil {
			return err
		}
		return l.reset(ctx, h, starts.Offsets())
	})
}

func (l *lab) resetToEnd(ctx context.Context, h crash.Hands) error {
	return l.whileDown(ctx, h, func(_, ends kadm.Offsets, unread int) error {
		l.unread += unread
		return l.reset(ctx, h, ends)
	})
}

// reset sets the position of the group. Kafka refuses that while the group has a member,
// which a stopped service is until its session ends.
func (l *lab) reset(ctx context.Context, h crash.Hands, to kadm.Offsets) error {
	for {
		err := l.admin.CommitAllOffsets(ctx, group, to)
		if !errors.Is(err, kerr.UnknownMemberID) {
			return err
		}
		if err := h.Rest(ctx, time.Second); err != nil {
			return err
		}
	}
}

// hangTransaction has a producer die in a transaction. The partitions of its commands wait
// until Kafka aborts it after ten seconds.
func (l *lab) hangTransaction(ctx context.Context, h crash.Hands) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(l.URL(), ",")...), kgo.TransactionalID("hangs"), kgo.TransactionTimeout(10*time.Second))
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	for i := range 50 {
		if err := client.ProduceSync(ctx, &kgo.Record{Topic: commands, Key: fmt.Append(nil, i), Value: []byte("aborted")}).FirstErr(); err != nil {
			return err
		}
	}
	return h.Rest(ctx, 20*time.Second)
}

// throttle gives the service a tenth of what it needs, for a while.
func (l *lab) throttle(ctx context.Context, h crash.Hands) error {
	set := func(remove bool) error {
		_, err := l.admin.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{{
			Entity: kadm.ClientQuotaEntity{{Type: "client-id", Name: new("timer-service")}},
			Ops: []kadm.AlterClientQuotaOp{
				{Key: "producer_byte_rate", Value: 10_000, Remove: remove}, {Key: "consumer_byte_rate", Value: 10_000, Remove: remove},
			},
		}})
		return err
	}
	if err := set(false); err != nil {
		return err
	}
	if err := h.Rest(ctx, 15*time.Second); err != nil {
		return err
	}
	if err := set(true); err != nil {
		return err
	}
	return h.Rest(ctx, 10*time.Second)
}

// controller returns the id of the node that leads the metadata.
func (l *lab) controller(ctx context.Context) (int, error) {
	metadata := kmsg.NewDescribeQuorumRequestTopic()
	metadata.Topic, metadata.Partitions = "__cluster_metadata", []kmsg.DescribeQuorumRequestTopicPartition{{}}
	req := kmsg.NewPtrDescribeQuorumRequest()
	req.Topics = append(req.Topics, metadata)
	resp, err := req.RequestWith(ctx, l.client)
	if err != nil {
		return 0, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return 0, fmt.Errorf("describe the quorum: %w", kerr.ErrorForCode(resp.ErrorCode))
	}
	return int(resp.Topics[0].Partitions[0].LeaderID), nil
}
