package kafka_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/kafka"
)

// bubble runs a test on fake time, with a cluster in the same process whose commands topic
// has twelve partitions.
func bubble(t *testing.T, test func(t *testing.T, c *cluster, opt kafka.Options)) {
	synctest.Test(t, func(t *testing.T) {
		c, dialer := virtual(t)
		if err := c.CreateTopic(kafka.DefaultRouting().Commands, partitions, map[string]string{"message.timestamp.type": "LogAppendTime"}); err != nil {
			t.Fatal(err)
		}
		test(t, c, kafka.Options{URL: c.url(), Connect: []kgo.Opt{dialer}})
	})
}

// TestOverQuotaTheOffsetMovesOn nacks 500 of 600 commands for an hour, with
// the delays of a quota. The committed offset is never more than a minute behind,
// and at the end each command was handled once, with its headers and its count of
// deliveries.
func TestOverQuotaTheOffsetMovesOn(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster, opt kafka.Options) {
		b, stop := start(t, opt)
		defer stop()
		topic := b.Routing().Commands
		s := b.Subscriber("reader")
		defer s.Close()
		messages, err := s.Subscribe(context.Background(), topic)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		acked := make(map[string]int)
		deliveries := make(map[string]int)
		handled := make(chan struct{})
		go func() {
			defer close(handled)
			for msg := range messages {
				body := string(msg.Payload)
				deliveries[body]++
				if n := broker.Deliveries(msg); n != deliveries[body] {
					t.Errorf("%s: delivery %d, want %d", body, n, deliveries[body])
				}
				ours := msg.Metadata.Get("timer-service-retry-at") + msg.Metadata.Get("timer-service-deliveries")
				if msg.Metadata.Get("traceparent") != "00-trace" || msg.Metadata.Get(broker.MetaTopic) != topic || ours != "" {
					t.Errorf("%s: metadata %v", body, msg.Metadata)
				}
				if body >= "0100" && time.Since(began) < time.Hour {
					broker.RetryAfter(msg, 15*time.Minute)
					msg.Nack()
					continue
				}
				acked[body]++
				msg.Ack()
				if len(acked) == 600 {
					return
				}
			}
		}()
		all, _ := timers(topic, 600)
		for i, m := range all {
			m.Payload = fmt.Appendf(nil, "%04d", i)
			m.Metadata.Set("traceparent", "00-trace")
		}
		if err := broker.Join(b.Publisher().Publish(t.Context(), all...)); err != nil {
			t.Fatal(err)
		}
		type mark struct {
			at  time.Time
			end int64
		}
		var ends [partitions][]mark // where each partition ended, minute by minute
		for range 60 {
			<-time.After(time.Minute)
			for n := range partitions {
				info := c.PartitionInfo(topic, int32(n))
				commit := c.GroupInfo("reader." + topic).Commits[topic][int32(n)].Offset
				for _, m := range ends[n] {
					if m.end > commit {
						t.Fatalf("partition %d: offset %d is committed after %v, %v after the partition ended at %d", n, commit, time.Since(began), time.Since(m.at), m.end)
					}
				}
				ends[n] = append(ends[n], mark{time.Now(), info.HighWatermark})
			}
		}
		<-handled
		if took := time.Since(began); took > 90*time.Minute {
			t.Errorf("all were handled after %v", took)
		}
		for body, n := range acked {
			if n != 1 {
				t.Errorf("%s was acked %d times", body, n)
			}
			if body >= "0100" && (deliveries[body] < 4 || deliveries[body] > 6) {
				t.Errorf("%s was delivered %d times", body, deliveries[body])
			}
		}
	})
}

// delayed nacks the next message with a delay.
func delayed(t *testing.T, messages <-chan *message.Message, delay time.Duration) {
	t.Helper()
	msg := <-messages
	broker.RetryAfter(msg, delay)
	msg.Nack()
}

// TestRetryThatCannotBePublishedWaitsInMemory makes the server refuse to store a message
// again. The message is delivered when its time has come, the committed offset waits for it,
// and other messages are handled.
func TestRetryThatCannotBePublishedWaitsInMemory(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster, opt kafka.Options) {
		b, stop := start(t, opt)
		defer stop()
		topic := b.Routing().Commands
		messages, s := subscribe(t, b, topic)
		defer s.Close()
		publish(t, b, topic, "delayed")
		delayed(t, messages, 10*time.Minute)
		began := time.Now()
		fault := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: kerr.TopicAuthorizationFailed, Count: -1})
		msg := <-messages
		if string(msg.Payload) != "delayed" || broker.Deliveries(msg) != 2 {
			t.Errorf("got %q, delivery %d", msg.Payload, broker.Deliveries(msg))
		}
		if took := time.Since(began); took < 10*time.Minute-time.Second || took > 10*time.Minute+time.Second {
			t.Errorf("delivered after %v", took)
		}
		if fault.Hits() < 10 {
			t.Errorf("publishing again was tried %d times", fault.Hits())
		}
		fault.Remove()
		msg.Ack()
		publish(t, b, topic, "good")
		expect(t, messages, "good")
		if n := c.records(topic); n != 2 {
			t.Errorf("%d records are stored, want 2", n)
		}
	})
}

// TestStopPublishesWhatWaits stops a broker while a message waits for its retry. The next
// broker gets the message at its time, with its count of deliveries, and no message that was
// handled.
func TestStopPublishesWhatWaits(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster, opt kafka.Options) {
		b, stop := start(t, opt)
		topic := b.Routing().Commands
		messages, s := subscribe(t, b, topic)
		publish(t, b, topic, "delayed")
		delayed(t, messages, time.Minute)
		began := time.Now()
		all, _ := timers(topic, 100)
		if err := broker.Join(b.Publisher().Publish(t.Context(), all...)); err != nil {
			t.Fatal(err)
		}
		for range all {
			(<-messages).Ack()
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		stop()

		b, stop = start(t, opt)
		defer stop()
		messages, s = subscribe(t, b, topic)
		defer s.Close()
		if msg := expect(t, messages, "delayed"); broker.Deliveries(msg) != 2 {
			t.Errorf("delivery %d, want 2", broker.Deliveries(msg))
		}
		if took := time.Since(began); took < time.Minute-time.Millisecond {
			t.Errorf("delivered after %v", took)
		}
		select {
		case msg := <-messages:
			t.Errorf("%q was delivered again", msg.Payload)
		case <-time.After(time.Hour):
		}
	})
}
