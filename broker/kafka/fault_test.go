package kafka_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/brokertest"
	"github.com/event-service-agent/timer-service/broker/kafka"
)

// load publishes messages, and publishes again the ones that fail.
func load(b *kafka.Broker, messages []broker.Message) {
	for len(messages) > 0 {
		var failed []broker.Message
		for i, err := range b.Publisher().Publish(context.Background(), messages...) {
			if err != nil {
				failed = append(failed, messages[i])
			}
		}
		if messages = failed; len(failed) > 0 {
			<-time.After(10 * time.Millisecond)
		}
	}
}

// TestServerThatBreaksEachFetchIsOneInterruption breaks all fetches of one server. Timers
// wait for commands after each interruption, so there must not be one for each fetch.
func TestServerThatBreaksEachFetchIsOneInterruption(t *testing.T) {
	t.Parallel()
	c := fake(t, kfake.NumBrokers(3))
	b := ready(t, kafka.Options{URL: c.url()})
	publish(t, b, "timer.commands", "a")
	messages, _ := subscribe(t, b, "timer.commands")
	(<-messages).Ack()
	before, err := b.Interruptions()
	must(t, err)
	bad := c.PartitionInfo("timer.commands", 0).Leader
	var broken atomic.Int64
	c.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if c.CurrentNode() != bad {
			return nil, nil, false
		}
		broken.Add(1)
		return nil, errors.New("broken"), true
	})
	until(t, "some requests have failed", func() bool { return broken.Load() >= 4 })
	if after, _ := b.Interruptions(); after != before+1 {
		t.Errorf("%d interruptions after %d failed requests, want 1", after-before, broken.Load())
	}
}

// TestFaultsLoseNothing makes the cluster answer requests with errors while messages are
// published and consumed. No message is lost, and each one that was acked is committed, so
// that a second instance does not get it.
func TestFaultsLoseNothing(t *testing.T) {
	t.Parallel()
	group := []kmsg.Key{kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat, kmsg.OffsetCommit, kmsg.OffsetFetch}
	for _, test := range []struct {
		name  string
		fault kfake.Fault
	}{
		{"a leader moves, for the producer", kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotLeaderForPartition, Count: 20}},
		{"a leader moves, for the consumer", kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.NotLeaderForPartition, Count: 20}},
		{"an offset is gone", kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.OffsetOutOfRange, Count: 2}},
		{"too few replicas", kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: 10}},
		{"stored, but too few replicas", kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicasAfterAppend, Count: 10}},
		{"the producer is fenced", kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.InvalidProducerEpoch, Count: 2}},
		{"the producer is unknown", kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.UnknownProducerID, Count: 2}},
		{"a disk is broken", kfake.Fault{Keys: []kmsg.Key{kmsg.Produce, kmsg.Fetch}, Err: kerr.KafkaStorageError, Count: 10}},
		{"the coordinator is loading", kfake.Fault{Keys: group, Err: kerr.CoordinatorLoadInProgress, Count: 20}},
		{"the coordinator moves", kfake.Fault{Keys: group, Err: kerr.NotCoordinator, Count: 20}},
		{"the coordinator is away", kfake.Fault{Keys: []kmsg.Key{kmsg.FindCoordinator, kmsg.OffsetCommit}, Err: kerr.CoordinatorNotAvailable, Count: 20}},
		{"commits fail", kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.RequestTimedOut, Count: 10}},
		{"the member is unknown", kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat, kmsg.OffsetCommit}, Err: kerr.UnknownMemberID, Count: 2}},
		{"the generation is over", kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat, kmsg.OffsetCommit}, Err: kerr.IllegalGeneration, Count: 2}},
		{"a rebalance is repeated", kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat, kmsg.OffsetCommit}, Err: kerr.RebalanceInProgress, Count: 5}},
		{"the topic is unknown for a while", kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Err: kerr.UnknownTopicOrPartition, Count: 5}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { losesNothing(t, test.fault) })
		})
	}
}

func losesNothing(t *testing.T, fault kfake.Fault) {
	t.Helper()
	const each, n = 40, 1000
	c := virtual(t)
	opt := c.options()
	b := ready(t, opt)
	topic := opt.Routing.EventsOf("acme")
	messages, s := subscribe(t, b, topic)
	all, _ := timers(topic, n+2*each)
	load(b, all[:each])
	h := c.Fault(fault)
	published := make(chan struct{})
	go func() {
		defer close(published)
		for some := range slices.Chunk(all[each:n], each) {
			load(b, some)
		}
	}()
	seen := make(map[string]bool)
	read := func(n int) {
		for len(seen) < n {
			msg := brokertest.Next(t, messages)
			seen[string(msg.Payload)] = true
			msg.Ack()
		}
	}
	read(n)
	<-published
	if err := h.Wait(t.Context(), 1); err != nil {
		t.Errorf("the fault was never met: %v", err)
	}
	h.Remove()
	load(b, all[n:n+each])
	read(n + each)
	go func() { // after a session that ends late, messages are redelivered once more
		for msg := range messages {
			msg.Ack()
		}
	}()
	until(t, "commit of all", func() bool {
		commits := c.GroupInfo("reader." + topic).Commits[topic]
		for n := range partitions {
			if end := c.PartitionInfo(topic, int32(n)).HighWatermark; end > 0 && commits[int32(n)].Offset != end {
				return false
			}
		}
		return true
	})
	must(t, s.Close())
	load(b, all[n+each:])
	second, _ := subscribe(t, ready(t, opt), topic)
	for range each {
		msg := brokertest.Next(t, second)
		if seen[string(msg.Payload)] {
			t.Fatalf("message %s was committed, and came again", msg.Payload)
		}
		msg.Ack()
	}
}
