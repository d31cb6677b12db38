package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/kafka"
	"github.com/event-service-agent/timer-service/timer"
)

// replay returns the bodies of a replay by the name of the log, without the id of its
// topic.
func replay(t testing.TB, b *kafka.Broker, kind broker.Kind, from ...timer.Position) map[string][]string {
	t.Helper()
	got := make(map[string][]string)
	last := make(map[string]int64)
	err := broker.Replay(t.Context(), b, "reader", kind, from, func(batch []broker.Stored) error {
		if len(batch) == 0 || len(batch) > 2000 {
			t.Errorf("a batch of %d", len(batch))
		}
		for _, s := range batch {
			if s.Number <= last[s.Log] {
				t.Errorf("%s: number %d after %d", s.Log, s.Number, last[s.Log])
			}
			if age := time.Since(s.At); age < -time.Minute || age > time.Hour {
				t.Errorf("%s: stored at %v", s.Log, s.At)
			}
			last[s.Log] = s.Number
			name, _, _ := strings.Cut(s.Log, "@")
			topic, number, _ := strings.Cut(name, "/")
			m := s.Message.Metadata
			if m[broker.MetaTopic] != topic || m[broker.MetaPosition] != fmt.Sprint(number, "/", s.Number-1) || m[broker.MetaDelivery] != "" {
				t.Errorf("%s: metadata %v", s.Log, m)
			}
			got[name] = append(got[name], string(s.Message.Payload))
		}
		return nil
	})
	if err != nil {
		t.Errorf("Replay: %v", err)
	}
	return got
}

// merged returns the bodies of a topic, in the order of their numbers.
func merged(got map[string][]string, topic string) (numbers []int) {
	for name, bodies := range got {
		if strings.HasPrefix(name, topic+"/") {
			for _, body := range bodies {
				n, err := strconv.Atoi(body)
				if err != nil {
					n = -1
				}
				numbers = append(numbers, n)
			}
		}
	}
	slices.Sort(numbers)
	return numbers
}

func count(from, to int) (numbers []int) {
	for n := from; n < to; n++ {
		numbers = append(numbers, n)
	}
	return numbers
}

// TestReplayGoesOnBehindPositions replays what a first replay has left.
func TestReplayGoesOnBehindPositions(t *testing.T) {
	t.Parallel()
	c, r := serve(t), routing()
	b := ready(t, kafka.Options{URL: c.url(), Routing: r, Partitions: 3})
	spread(t, b, r.Commands, 0, 5000)
	spread(t, b, r.EventsOf("acme"), 0, 3000)
	spread(t, b, r.EventsOf("umbra"), 3000, 4000)
	spread(t, b, r.DeadLettersOf("acme"), 0, 10)
	spread(t, b, r.DeadLettersOf(timer.NoTenant), 10, 30)
	s := handle(t, b, 5000)
	acked(t, b, r.Commands, 5000)
	before := b.Positions("reader")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	spread(t, b, r.Commands, 5000, 5500) // never delivered
	topics := map[broker.Kind][]string{
		broker.Commands:   {r.Commands},
		broker.Events:     {r.EventsOf("acme"), r.EventsOf("umbra")},
		broker.DeadLetter: {r.DeadLettersOf("acme"), r.DeadLettersOf(timer.NoTenant)},
	}
	check := func(when string, from []timer.Position, want map[broker.Kind][]int) {
		t.Helper()
		for kind, topics := range topics {
			var all []int
			got := replay(t, b, kind, from...)
			for _, topic := range topics {
				all = append(all, merged(got, topic)...)
			}
			if diff := cmp.Diff(want[kind], all); diff != "" {
				t.Errorf("%s, kind %d (-want +got):\n%.1000s", when, kind, diff)
			}
		}
	}
	check("from the beginning", nil, map[broker.Kind][]int{
		broker.Commands: count(0, 5000), broker.Events: count(0, 4000), broker.DeadLetter: count(0, 30),
	})
	check("from the end", before, map[broker.Kind][]int{})
	spread(t, b, r.EventsOf("umbra"), 4000, 4005)
	spread(t, b, r.DeadLettersOf("stark"), 30, 35)
	topics[broker.DeadLetter] = append(topics[broker.DeadLetter], r.DeadLettersOf("stark"))
	s = handle(t, b, 500)
	acked(t, b, r.Commands, 5500)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	check("behind the positions", before, map[broker.Kind][]int{
		broker.Commands: count(5000, 5500), broker.Events: count(4000, 4005), broker.DeadLetter: count(30, 35),
	})
}

// records were compacted away, and that were cut.
func TestReplayEndsWhereNoRecordIs(t *testing.T) {
	t.Parallel()
	c, r := serve(t), routing()
	b := ready(t, kafka.Options{URL: c.url(), Routing: r})
	events, cut, gone, letters := r.EventsOf("acme"), r.EventsOf("cut"), r.EventsOf("gone"), r.DeadLettersOf("acme")
	for _, topic := range []string{events, cut, gone} {
		one(t, c, topic)
		publish(t, b, topic, numbers(10)...)
	}
	for topic, offset := range map[string]int64{cut: 6, gone: 10} {
		if err := c.DeleteRecords(topic, 0, offset); err != nil {
			t.Fatal(err)
		}
	}
	producer := client(t, c, kgo.TransactionalID("producer"), kgo.DefaultProduceTopic(events))
	for n, commit := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		if err := producer.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := producer.ProduceSync(t.Context(), kgo.StringRecord(strconv.Itoa(10+n))).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := producer.EndTransaction(t.Context(), commit); err != nil {
			t.Fatal(err)
		}
	}
	got := replay(t, b, broker.Events)
	if diff := cmp.Diff(count(0, 11), merged(got, events)); diff != "" { // the last one was aborted
		t.Errorf("with transactions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string][]string{cut + "/0": numbers(10)[6:]}, map[string][]string{cut + "/0": got[cut+"/0"]}); diff != "" {
		t.Errorf("a log that was cut (-want +got):\n%s", diff)
	}
	if len(got) != 2 {
		t.Errorf("a log without records: %v", got)
	}

	if err := c.CreateTopic(letters, 1, map[string]string{"cleanup.policy": "compact", "delete.retention.ms": "0"}); err != nil {
		t.Fatal(err)
	}
	publish(t, b, letters, "first", "second")
	if err := b.VisitDeadLetters(t.Context(), "acme", func(m *message.Message) (bool, error) { return string(m.Payload) == "second", nil }); err != nil {
		t.Fatal(err)
	}
	publish(t, b, letters, "third", "fourth")
	c.Compact()
	if diff := cmp.Diff(map[string][]string{letters + "/0": {"first", "third", "fourth"}}, replay(t, b, broker.DeadLetter)); diff != "" {
		t.Errorf("compacted (-want +got):\n%s", diff)
	}
}

// compacted the last dead letters away. Of events it is an error.
func TestReplayDoesNotWaitForEver(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster, opt kafka.Options) {
		opt.Partitions = 1
		b := ready(t, opt)
		publish(t, b, b.Routing().EventsOf("acme"), "0")
		publish(t, b, b.Routing().DeadLettersOf("acme"), "0")
		c.ControlKey(int16(kmsg.ListOffsets), func(r kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			req := r.(*kmsg.ListOffsetsRequest)
			resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
			for _, topic := range req.Topics {
				in := kmsg.NewListOffsetsResponseTopic()
				in.Topic = topic.Topic
				for _, p := range topic.Partitions {
					out := kmsg.NewListOffsetsResponseTopicPartition()
					if p.Timestamp == -1 {
						out.Offset = 5 // the end
					}
					in.Partitions = append(in.Partitions, out)
				}
				resp.Topics = append(resp.Topics, in)
			}
			return resp, nil, true
		})
		for _, kind := range []broker.Kind{broker.DeadLetter, broker.Events} {
			visited, began := 0, time.Now()
			err := broker.Replay(t.Context(), b, "reader", kind, nil, func(batch []broker.Stored) error {
				visited += len(batch)
				return nil
			})
			if visited != 1 || (err == nil) != (kind == broker.DeadLetter) || time.Since(began) > time.Minute {
				t.Errorf("kind %d: %v after %d messages and %v", kind, err, visited, time.Since(began))
			}
		}
	})
}

// TestReplayEndsWithTheFirstError fails in the middle.
func TestReplayEndsWithTheFirstError(t *testing.T) {
	t.Parallel()
	c, r := serve(t), routing()
	b := ready(t, kafka.Options{URL: c.url(), Routing: r})
	spread(t, b, r.EventsOf("acme"), 0, 5000)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	refused := errors.New("refused")
	for _, test := range []struct {
		name  string
		visit func() error
		want  error
	}{
		{"of visit", func() error { return refused }, refused},
		{"of the context", func() error { cancel(); return nil }, context.Canceled},
		{"of the context before", func() error { t.Error("visited"); return nil }, context.Canceled},
	} {
		visits := 0
		err := broker.Replay(ctx, b, "reader", broker.Events, nil, func([]broker.Stored) error {
			visits++
			return test.visit()
		})
		if !errors.Is(err, test.want) || visits > 1 {
			t.Errorf("%s: %v after %d visits", test.name, err, visits)
		}
	}
}

// TestReplaySurvivesARestart stops the server in the middle.
func TestReplaySurvivesARestart(t *testing.T) {
	t.Parallel()
	const n = 40_000 // more than one fetch
	c, r := serve(t), routing()
	b := ready(t, kafka.Options{URL: c.url(), Routing: r})
	for from := 0; from < n; from += 10_000 {
		spread(t, b, r.EventsOf("acme"), from, from+10_000)
	}
	got, stopped := make(map[int]int), false
	err := broker.Replay(t.Context(), b, "reader", broker.Events, nil, func(batch []broker.Stored) error {
		if !stopped {
			stopped = true
			c.stop()
			c.start()
		}
		for _, s := range batch {
			number, _ := strconv.Atoi(string(s.Message.Payload))
			got[number]++
		}
		return nil
	})
	if err != nil || len(got) != n {
		t.Errorf("%v after %d events of %d", err, len(got), n)
	}
	for number, times := range got {
		if times != 1 {
			t.Errorf("event %d came %d times", number, times)
		}
	}
}

// TestReplayEndsWithTheServer stops the server in the middle, for good.
func TestReplayEndsWithTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := new(kfake.VirtualNetwork)
		c := serve(t, kfake.ListenFn(network.Listen), kfake.Ports(9092))
		b := ready(t, kafka.Options{URL: c.url(), Partitions: 1, Connect: []kgo.Opt{kgo.Dialer(network.DialContext)}})
		for range 4 { // more than one fetch
			spread(t, b, b.Routing().EventsOf("acme"), 0, 10_000)
		}
		began := time.Now()
		err := broker.Replay(t.Context(), b, "reader", broker.Events, nil, func([]broker.Stored) error {
			c.stop()
			return nil
		})
		if took := time.Since(began); !errors.Is(err, broker.ErrUnavailable) || took > time.Minute {
			t.Errorf("%v after %v, want ErrUnavailable", err, took)
		}
	})
}

// BenchmarkReplay replays 200,000 events of twelve partitions.
func BenchmarkReplay(b *testing.B) {
	const n = 200_000
	c, r := serve(b), routing()
	k := ready(b, kafka.Options{URL: c.url(), Routing: r})
	for from := 0; from < n; from += 10_000 {
		spread(b, k, r.EventsOf("acme"), from, from+10_000)
	}
	for b.Loop() {
		left := n
		err := broker.Replay(b.Context(), k, "reader", broker.Events, nil, func(batch []broker.Stored) error {
			left -= len(batch)
			return nil
		})
		if err != nil || left != 0 {
			b.Fatalf("%v, %d are missing", err, left)
		}
	}
	b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "messages/s")
}
