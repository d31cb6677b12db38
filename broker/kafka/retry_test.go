package kafka_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/kafka"
)

// bubble runs a test on fake time, with a cluster in the same process whose commands topic
// has twelve partitions.
func bubble(t *testing.T, test func(t *testing.T, c *cluster, opt kafka.Options)) {
	synctest.Test(t, func(t *testing.T) {
		c, dialer := virtual(t)
		must(t, c.CreateTopic(kafka.DefaultRouting().Commands, partitions, map[string]string{"message.timestamp.type": "LogAppendTime"}))
		test(t, c, kafka.Options{URL: c.url(), Connect: []kgo.Opt{dialer}})
	})
}

// TestRecordsOfVersion010AreOrdinaryCommands has a topic with 300 records that version 0.1.0
// published again, to be delivered in an hour. They are delivered at once, as first deliveries,
// without its headers.
func TestRecordsOfVersion010AreOrdinaryCommands(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster, opt kafka.Options) {
		const n = 300
		b, stop := start(t, opt)
		defer stop()
		topic := b.Routing().Commands
		dialer := opt.Connect[0]
		old := client(t, c, dialer)
		at := strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10)
		for i := range n {
			r := &kgo.Record{Topic: topic, Key: []byte(strconv.Itoa(i)), Value: []byte(strconv.Itoa(i)), Headers: []kgo.RecordHeader{
				{Key: "traceparent", Value: []byte("00-trace")},
				{Key: "timer-service-retry-at", Value: []byte(at)},
				{Key: "timer-service-deliveries", Value: []byte("7")},
			}}
			must(t, old.ProduceSync(t.Context(), r).FirstErr())
		}
		messages, s := subscribe(t, b, topic)
		defer s.Close()
		began, seen := time.Now(), make(map[string]bool)
		for range n {
			msg := <-messages
			seen[string(msg.Payload)] = true
			if msg.Metadata.Get("traceparent") != "00-trace" || len(msg.Metadata) != 5 || broker.Deliveries(msg) != 1 {
				t.Errorf("metadata %v", msg.Metadata)
			}
			msg.Ack()
		}
		if took := time.Since(began); took > time.Minute || len(seen) != n {
			t.Errorf("%d of %d came within %v", len(seen), n, took)
		}
	})
}

// TestNackedMessageHoldsTheOffsetBack nacks one message of many. Nothing is published again, the
// others are handled, and the committed offset waits.
func TestNackedMessageHoldsTheOffsetBack(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster, opt kafka.Options) {
		r := routing()
		opt.Routing = r
		topic := r.EventsOf("acme")
		one(t, c, topic)
		b, stop := start(t, opt)
		defer stop()
		messages, s := subscribe(t, b, topic)
		defer s.Close()
		publish(t, b, topic, "failing")
		(<-messages).Nack()
		publish(t, b, topic, numbers(50)...)
		for range 50 {
			(<-messages).Ack()
		}
		for range 4 {
			(<-messages).Nack()
		}
		if commit, ok := c.GroupInfo("reader." + topic).Commits[topic][0]; ok && commit.Offset > 0 {
			t.Errorf("offset %d is committed", commit.Offset)
		}
		expect(t, messages, "failing")
		<-time.After(time.Second)
		if commit := c.GroupInfo("reader." + topic).Commits[topic][0].Offset; commit != 51 || c.records(topic) != 51 {
			t.Errorf("offset %d of %d records is committed, want 51", commit, c.records(topic))
		}
	})
}
