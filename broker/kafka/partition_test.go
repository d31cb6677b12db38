package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/brokertest"
	"github.com/event-service-agent/timer-service/broker/kafka"
	"github.com/event-service-agent/timer-service/envelope"
)

// The number of the partition that fails, and how many there are.
const (
	failing    = int32(3)
	partitions = 12
)

// timers returns messages of n timers, with the numbers of their partitions.
func timers(topic string, n int) (messages []broker.Message, numbers []int32) {
	p := kgo.StickyKeyPartitioner(nil).ForTopic(topic)
	for i := range n {
		m := message.NewMessage(uuid.NewString(), []byte(fmt.Sprint(i)))
		m.Metadata.Set(envelope.HeaderTenantID, "acme")
		m.Metadata.Set(envelope.HeaderServiceCallID, fmt.Sprint("call-", i))
		messages = append(messages, broker.Message{Topic: topic, Message: m})
		numbers = append(numbers, int32(p.Partition(&kgo.Record{Topic: topic, Key: []byte(broker.Key(m))}, partitions)))
	}
	return messages, numbers
}

// counts reads a topic to its end, and returns how often each body is there.
func counts(t *testing.T, c *cluster, topic string, records int) map[string]int {
	t.Helper()
	seen := make(map[string]int)
	cl := client(t, c, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for n := 0; n < records; {
		for r := range cl.PollFetches(t.Context()).RecordsAll() {
			seen[string(r.Value)]++
			n++
		}
	}
	return seen
}

// TestPartitionThatFailsFailsAlone publishes to twelve partitions, one of which accepts no
// messages. The messages of the others are published at once, each once. The messages of
// that partition fail with an error that may pass, and are published when it accepts
// messages again.
func TestPartitionThatFailsFailsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, failsAlone)
}

func failsAlone(t *testing.T) {
	c := virtual(t)
	b := ready(t, c.options())
	topic := b.Routing().EventsOf("acme")
	must(t, c.CreateTopic(topic, partitions, nil))
	fault := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Partitions: []int32{failing}, Err: kerr.NotEnoughReplicas, Count: -1})
	messages, numbers := timers(topic, 2000)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	began := time.Now()
	var left []broker.Message
	for i, err := range b.Publisher().Publish(ctx, messages...) {
		switch {
		case numbers[i] != failing && err != nil:
			t.Fatalf("message %d of partition %d: %v", i, numbers[i], err)
		case numbers[i] == failing && (err == nil || errors.Is(err, broker.ErrRefused) || errors.Is(err, broker.ErrUnavailable)):
			t.Fatalf("message %d of the partition that fails: %v", i, err)
		case err != nil:
			left = append(left, messages[i])
			if part, ok := errors.AsType[broker.PartitionError](err); !ok || part.Partition != fmt.Sprint(failing) {
				t.Fatalf("message %d of partition %d does not say which one failed: %v", i, failing, err)
			}
		}
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("Publish took %v", took)
	}
	if n := c.records(topic); n != len(messages)-len(left) {
		t.Errorf("%d messages are stored, %d were published", n, len(messages)-len(left))
	}
	for range 5 { // each call is short, since it must not delay the messages of other partitions
		more, at := timers(topic, 12)
		for i, err := range b.Publisher().Publish(ctx, more...) {
			if (err != nil) != (at[i] == failing) {
				t.Errorf("message of partition %d while %d fails: %v", at[i], failing, err)
			}
		}
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("five more calls ended after %v", took)
	}

	fault.Remove()
	began = time.Now()
	if err := broker.Join(b.Publisher().Publish(ctx, left...)); err != nil {
		t.Errorf("publish again: %v", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the partition is back, and Publish took %v", took)
	}
	seen := counts(t, c, topic, c.records(topic))
	for i := range messages {
		if n := seen[fmt.Sprint(i)]; n != 1 && i >= 12 {
			t.Errorf("message %d is there %d times", i, n)
		}
	}
}

// TestCallThatIsGivenUpSaysNothingOfItsTopic ends the context of a call before a slow server
// answers. The next call has its time for an answer.
func TestCallThatIsGivenUpSaysNothingOfItsTopic(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster, opt kafka.Options) {
		b, stop := start(t, opt)
		defer stop()
		c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			time.Sleep(time.Second)
			return nil, nil, false
		})
		for _, limit := range []time.Duration{100 * time.Millisecond, time.Minute} {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			messages, _ := timers("timer.commands", 1)
			if err := broker.Join(b.Publisher().Publish(ctx, messages...)); (err == nil) != (limit > time.Second) {
				t.Errorf("with %v: %v", limit, err)
			}
			cancel()
		}
	})
}

// TestServerOfSomePartitionsThatHangsFailsThoseAlone makes one of three servers answer
// nothing for a while.
func TestServerOfSomePartitionsThatHangsFailsThoseAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, someHang)
}

func someHang(t *testing.T) {
	c := virtual(t, kfake.NumBrokers(3), kfake.Ports(9092, 9093, 9094))
	b := ready(t, c.options())
	topic := b.Routing().EventsOf("acme")
	must(t, c.CreateTopic(topic, partitions, nil))
	warm, _ := timers(topic, 100)
	must(t, broker.Join(b.Publisher().Publish(t.Context(), warm...)))
	hangs := c.PartitionInfo(topic, failing).Leader
	again := make(chan struct{})
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if c.CurrentNode() == hangs {
			c.SleepControl(func() { <-again })
		}
		return nil, nil, false
	})
	messages, numbers := timers(topic, 1000)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	began := time.Now()
	for i, err := range b.Publisher().Publish(ctx, messages...) {
		hung := c.PartitionInfo(topic, numbers[i]).Leader == hangs
		if (err != nil) != hung || errors.Is(err, broker.ErrRefused) || errors.Is(err, broker.ErrUnavailable) {
			t.Fatalf("message %d, hung %v: %v", i, hung, err)
		}
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("Publish took %v", took)
	}
	close(again)
	until(t, "all messages to be taken again", func() bool {
		return broker.Join(b.Publisher().Publish(ctx, messages...)) == nil
	})
}

// TestPartitionThatCannotBeReadDelaysNoOther makes fetches of one partition fail. Messages
// of the others are delivered.
func TestPartitionThatCannotBeReadDelaysNoOther(t *testing.T) {
	t.Parallel()
	c := fake(t)
	b := ready(t, c.options())
	topic := b.Routing().EventsOf("acme")
	must(t, c.CreateTopic(topic, partitions, nil))
	messages, _ := subscribe(t, b, topic)
	receive := func(n int) {
		t.Helper()
		for range n {
			brokertest.Next(t, messages).Ack()
		}
	}
	all, at := timers(topic, 100)
	ofFailing := 0
	for _, number := range at {
		if number == failing {
			ofFailing++
		}
	}
	load(b, all)
	receive(len(all))
	fault := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: topic, Partitions: []int32{failing}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	for range 3 {
		load(b, all)
		receive(len(all) - ofFailing)
	}
	fault.Remove()
	receive(3 * ofFailing)
}
