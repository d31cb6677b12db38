package kafka_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/kafka"
)

const (
	made        = "partitions=12, replication factor of the cluster, cleanup.policy=delete, message.timestamp.type=LogAppendTime, retention.bytes=-1, retention.ms=259200000"
	deadLetters = "service.events.acme.dlq"
)

func TestProvisionTellsAndMakesWhatIsMissing(t *testing.T) {
	t.Parallel()
	c, r := serve(t), routing()
	r.Events = r.Commands + ".events"
	b := kafka.New(kafka.Options{URL: c.url(), Routing: r}, quiet)
	want := []broker.Change{{Object: "topic " + r.Commands, Detail: made}, {Object: "topic " + r.Events, Detail: made}}
	for i, test := range []struct {
		dry  bool
		want []broker.Change
	}{{true, want}, {true, want}, {false, want}, {false, nil}, {true, nil}} {
		got, err := b.Provision(t.Context(), test.dry)
		if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
			t.Errorf("call %d: %v (-want +got):\n%s", i, err, diff)
		}
	}
	details, err := kadm.NewClient(client(t, c)).ListTopics(t.Context())
	if err != nil || len(details[r.Commands].Partitions) != 12 || len(details[r.Events].Partitions) != 12 {
		t.Errorf("topics: %v, %v", details, err)
	}
}

func TestWithVerifyNothingIsMade(t *testing.T) {
	t.Parallel()
	c, r := serve(t), routing()
	r.Events = r.Commands + ".events"
	deadLetters := r.DeadLettersOf("acme")
	b, _ := run(t, kafka.Options{URL: c.url(), Routing: r, Verify: true})
	awaitNotReady(t, b, "topic "+r.Commands+", topic "+r.Events+" does not exist")
	messages, _ := subscribe(t, b, r.Commands)
	if err := publishes(b, deadLetters, "dead letter"); err == nil || !strings.Contains(err.Error(), deadLetters) {
		t.Errorf("publish to a topic that is missing: %v, want its name", err)
	}
	if _, err := kafka.New(kafka.Options{URL: c.url(), Routing: r}, quiet).Provision(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	awaitReady(t, b)
	publish(t, b, r.Commands, "hello")
	expect(t, messages, "hello")
	details, err := kadm.NewClient(client(t, c)).ListTopics(t.Context())
	if err != nil || details.Has(deadLetters) {
		t.Errorf("topics: %v, %v", details.Names(), err)
	}
}

func TestClientMakesNothing(t *testing.T) {
	t.Parallel()
	c, r := serve(t), routing()
	r.Events = r.Commands + ".events"
	b := ready(t, kafka.Options{URL: c.url(), Routing: r, Client: true})
	tail, err := b.Tail().Subscribe(t.Context(), r.Events)
	must(t, err)
	if err := publishes(b, r.Events, "event"); err == nil || errors.Is(err, broker.ErrRefused) {
		t.Errorf("publish to a topic that is missing: %v, want an error that may pass", err)
	}
	service := ready(t, kafka.Options{URL: c.url(), Routing: r})
	publish(t, service, r.Events, "event")
	expect(t, tail, "event")
}

func TestTopicThatCouldLoseMessagesEndsRun(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		events         bool
		setting, value string
	}{
		{false, "cleanup.policy", "compact"},
		{false, "message.timestamp.type", "CreateTime"},
		{true, "retention.ms", "1000"},
		{true, "retention.bytes", "1000"},
	} {
		t.Run(test.setting, func(t *testing.T) {
			t.Parallel()
			c, r := serve(t), routing()
			r.Events = r.Commands + ".events"
			topic := r.Commands
			if test.events {
				topic = r.Events
			}
			must(t, c.CreateTopic(topic, 1, map[string]string{test.setting: test.value}))
			b := kafka.New(kafka.Options{URL: c.url(), Routing: r, Verify: true}, quiet)
			err := b.Run(t.Context())
			_, provisioning := b.Provision(t.Context(), true)
			for _, err := range []error{err, provisioning} {
				if err == nil || !strings.Contains(err.Error(), topic) || !strings.Contains(err.Error(), test.setting+"="+test.value) {
					t.Errorf("error %v, want topic and setting", err)
				}
			}
		})
	}
	t.Run("of a tenant", func(t *testing.T) {
		t.Parallel()
		c, r := serve(t), routing()
		b := ready(t, kafka.Options{URL: c.url(), Routing: r})
		must(t, c.CreateTopic(r.EventsOf("acme"), 1, map[string]string{"cleanup.policy": "compact"}))
		err := publishes(b, r.EventsOf("acme"), "event")
		if err == nil || errors.Is(err, broker.ErrRefused) || !strings.Contains(err.Error(), "cleanup.policy=compact") {
			t.Errorf("publish: %v, want an error that names the setting and may pass", err)
		}
		restarted := ready(t, kafka.Options{URL: c.url(), Routing: r})
		publish(t, restarted, r.EventsOf("other"), "event")
	})
}

func TestOptionsThatCannotWorkEndRun(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]kafka.Options{
		"scheme":      {URL: "nats://a"},
		"characters":  {Routing: broker.Routing{Commands: "a b", Events: "b", DeadLetters: "c"}},
		"SASL":        {SASL: "gssapi", Username: "u", Password: "p"},
		"way to log ": {Username: "u", Password: "p"},
	} {
		if err := kafka.New(opt, quiet).Run(t.Context()); err == nil {
			t.Errorf("%s: Run works", name)
		}
	}
}

// TestDeadLettersAreKeptUntilTheyAreRemoved compacts the topic. Dead letters that were not
// removed are still there, and removed ones are not.
func TestDeadLettersAreKeptUntilTheyAreRemoved(t *testing.T) {
	t.Parallel()
	c := fake(t)
	b := ready(t, kafka.Options{URL: c.url()})
	messages, _ := subscribe(t, b, deadLetters)
	publish(t, b, deadLetters, "a", "", "c", "d") // one has no body, which is no tombstone
	for range 4 {
		(<-messages).Ack()
	}
	visit := func(remove string) string { return strings.Join(letters(t, b, "acme", only(remove)), ".") }
	if got := visit("c"); got != "a..c.d" {
		t.Errorf("visited %q", got)
	}
	if got := visit(""); got != "a..d" {
		t.Errorf("visited %q after one was removed", got)
	}
	c.Compact()
	if got := visit("none"); got != "a.d" {
		t.Errorf("visited %q after two were removed and the topic was compacted", got)
	}
	publish(t, b, deadLetters, "e")
	expect(t, messages, "e") // and no tombstone

	cl := client(t, c)
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "service.events.other.dlq", Value: nil, Key: []byte("x")}).FirstErr(); err == nil {
		t.Error("the topic of a tenant without dead letters is there")
	}
}

// TestNewDeadLettersAreVisited makes another client create the topic right after the visitor
// has learnt that there is none. The visitor's client remembers that for a while.
func TestNewDeadLettersAreVisited(t *testing.T) {
	t.Parallel()
	opt := serve(t).options()
	visitor, service := ready(t, opt), ready(t, opt)
	visited := func() int { return len(letters(t, visitor, "acme", only("none"))) }
	publish(t, service, opt.Routing.DeadLettersOf("other"), "warm") // connections are there
	if n := visited(); n != 0 {
		t.Errorf("visited %d before there was a topic", n)
	}
	publish(t, service, opt.Routing.DeadLettersOf("acme"), "a")
	if n := visited(); n != 1 {
		t.Errorf("visited %d dead letters, want 1", n)
	}
}

// TestForeignDeadLettersAreRemoved visits dead letters of other programs: some have no key,
// others are not in the partition of their key.
func TestForeignDeadLettersAreRemoved(t *testing.T) {
	t.Parallel()
	c := serve(t)
	b := ready(t, c.options())
	topic := b.Routing().DeadLettersOf("foreign")
	must(t, c.CreateTopic(topic, 3, nil))
	cl := client(t, c, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	want := []string{"no key", "no key either", "key 0", "key 1", "key 2"}
	for i, r := range []*kgo.Record{
		{Partition: 0}, {Partition: 1}, {Partition: 0, Key: []byte("a")}, {Partition: 1, Key: []byte("b")}, {Partition: 2, Key: []byte("c")},
	} {
		r.Topic, r.Value = topic, []byte(want[i])
		must(t, cl.ProduceSync(t.Context(), r).FirstErr())
	}
	slices.Sort(want)
	for _, removed := range []bool{false, true} {
		got := letters(t, b, "foreign", func(string) bool { return !removed })
		slices.Sort(got)
		if removed {
			want = nil
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("removed %v (-want +got):\n%s", removed, diff)
		}
	}
	var tombstones []string // Kafka compacts by partition, so a tombstone must be in that of its dead letter
	cl = client(t, c, kgo.ConsumeTopics(topic))
	for len(tombstones) < 5 {
		for _, r := range cl.PollFetches(t.Context()).Records() {
			if r.Value == nil {
				tombstones = append(tombstones, fmt.Sprintf("%s in %d", r.Key, r.Partition))
			}
		}
	}
	for _, tombstone := range []string{"a in 0", "b in 1", "c in 2"} {
		if !slices.Contains(tombstones, tombstone) {
			t.Errorf("tombstones %q lack %q", tombstones, tombstone)
		}
	}
}

// TestTopicThatWasMadeIsAwaited has a cluster whose brokers learn of a new topic a second
// after the controller has made it.
func TestTopicThatWasMadeIsAwaited(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster, opt kafka.Options) {
		var known atomic.Int64
		c.ControlKey(int16(kmsg.CreateTopics), func(kmsg.Request) (kmsg.Response, error, bool) {
			known.Store(time.Now().Add(time.Second).UnixNano())
			return nil, nil, false
		})
		c.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.Metadata}, Topic: "service.events", Err: kerr.UnknownTopicOrPartition, Count: -1,
			When: func(kmsg.Request) bool { return time.Now().UnixNano() < known.Load() },
		})
		changes, err := kafka.New(opt, quiet).Provision(t.Context(), false)
		if now := time.Now().UnixNano(); err != nil || len(changes) != 1 || now < known.Load() {
			t.Errorf("provision ended with %v, %v, %v after the brokers knew the topic", changes, err, time.Duration(now-known.Load()))
		}
	})
}
