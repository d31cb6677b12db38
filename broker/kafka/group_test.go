package kafka_test

import (
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
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/kafka"
)

// client returns a client that is not of our driver.
func client(t testing.TB, c *cluster, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(slices.Concat(opts, c.connect, []kgo.Opt{kgo.SeedBrokers(strings.Split(c.url(), ",")...)})...)
	must(t, err)
	t.Cleanup(cl.Close)
	return cl
}

// one makes a topic with one partition.
func one(t testing.TB, c *cluster, topic string) {
	t.Helper()
	must(t, c.CreateTopic(topic, 1, nil))
}

// numbers returns the bodies "0" to "n-1".
func numbers(n int) (bodies []string) {
	for i := range n {
		bodies = append(bodies, strconv.Itoa(i))
	}
	return bodies
}

// TestNothingIsCommittedBeforeItIsAcked leaves one message of many in a partition without an
// ack. The committed offset stays at that message. A second instance gets it, and all
// messages behind it.
func TestNothingIsCommittedBeforeItIsAcked(t *testing.T) {
	t.Parallel()
	c := serve(t)
	opt := c.options()
	topic := opt.Routing.EventsOf("acme")
	one(t, c, topic)
	b, stop := start(t, opt)
	messages, s := subscribe(t, b, topic)
	publish(t, b, topic, numbers(100)...)
	var unacked *message.Message
	for range 100 {
		msg := <-messages
		if msg.Metadata.Get(broker.MetaPosition) == "0/90" {
			unacked = msg
			continue
		}
		msg.Ack()
	}
	committed(t, c, topic, 0, 90)
	must(t, s.Close())
	publish(t, b, topic, "later")
	stop()
	want := []string{string(unacked.Payload), "91", "92", "93", "94", "95", "96", "97", "98", "99", "later"}
	second, _ := subscribe(t, ready(t, opt), topic)
	var got []string
	for range want {
		msg := <-second
		got = append(got, string(msg.Payload))
		msg.Ack()
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the second instance (-want +got):\n%s", diff)
	}
	committed(t, c, topic, 0, 101)
}

// committed waits until the group of the role "reader" has committed an offset.
func committed(t *testing.T, c *cluster, topic string, number int32, offset int64) {
	t.Helper()
	admin := kadm.NewClient(client(t, c))
	until(t, fmt.Sprintf("a commit of offset %d", offset), func() bool {
		offsets, err := admin.FetchOffsets(t.Context(), "reader."+topic)
		o, ok := offsets.Lookup(topic, number)
		if err == nil && ok && o.At > offset {
			t.Fatalf("committed %d, want %d", o.At, offset)
		}
		return err == nil && ok && o.At == offset
	})
}

// TestTopicThatIsMadeAgainIsRead deletes a topic while it is subscribed to, and
// makes it again, where offsets begin at zero.
func TestTopicThatIsMadeAgainIsRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { readsTopicThatIsMadeAgain(t, virtual(t)) })
}

func readsTopicThatIsMadeAgain(t *testing.T, c *cluster) {
	t.Helper()
	b := ready(t, c.options())
	topic := b.Routing().EventsOf("acme")
	messages, _ := subscribe(t, b, topic)
	publish(t, b, topic, numbers(50)...)
	for range 50 {
		(<-messages).Ack()
	}
	makeAgain(t, c, b, topic)
	expect(t, messages, "again")
}

// makeAgain deletes a topic, and has the driver make it again for a message "again".
func makeAgain(t *testing.T, c *cluster, b *kafka.Broker, topic string) {
	t.Helper()
	must(t, c.DeleteTopic(topic))
	until(t, "a topic that is made again", func() bool { return publishes(b, topic, "again") == nil })
}

// TestPlacesInATopicThatIsMadeAgain are in the log of the new topic from the first message on. The
// inbox would take one in the log of the old topic for a message that it has.
func TestPlacesInATopicThatIsMadeAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := virtual(t)
		b := ready(t, c.options())
		topic := b.Routing().CommandsOf("acme")
		messages, _ := subscribe(t, b, topic)
		publish(t, b, topic, "0")
		(<-messages).Ack()
		_, err := b.Logs(t.Context(), "service")
		must(t, err)
		makeAgain(t, c, b, topic)
		m := <-messages
		at := func() string {
			log, number, ok := b.Place(m.Metadata.Get(broker.MetaTopic), m.Metadata.Get(broker.MetaPosition))
			return fmt.Sprint(log, number, ok)
		}
		first := at()
		m.Ack()
		_, err = b.Logs(t.Context(), "service")
		must(t, err)
		if first != at() {
			t.Errorf("it is at %s, and was at %s", at(), first)
		}
	})
}

// TestForeignRecordsArrive publishes records as other clients do: without headers, without a
// key, with a header twice, without a value, compressed.
func TestForeignRecordsArrive(t *testing.T) {
	t.Parallel()
	c := serve(t)
	b := ready(t, c.options())
	topic := b.Routing().EventsOf("acme")
	one(t, c, topic)
	messages, _ := subscribe(t, b, topic)
	cl := client(t, c, kgo.ProducerBatchCompression(kgo.GzipCompression()))
	for _, test := range []struct {
		id     string // id that arrives; empty: a made-up one
		record kgo.Record
	}{
		{"", kgo.Record{Value: []byte("bare")}},
		{"", kgo.Record{Value: nil}},
		{"", kgo.Record{Key: []byte("k"), Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "a", Value: []byte("2")}, {Key: "", Value: nil}}}},
		{"id-1", kgo.Record{Headers: []kgo.RecordHeader{{Key: "messageId", Value: []byte("id-1")}, {Key: "broker_topic", Value: []byte("x")}}}},
		{"id-2", kgo.Record{Headers: []kgo.RecordHeader{{Key: "_watermill_message_uuid", Value: []byte("id-2")}}}},
		{"", kgo.Record{Value: []byte(strings.Repeat("packed ", 9000))}},
	} {
		test.record.Topic = topic
		must(t, cl.ProduceSync(t.Context(), &test.record).FirstErr())
		msg := expect(t, messages, string(test.record.Value))
		madeUp := msg.Metadata.Get(broker.MetaNoID) == "true"
		if msg.Metadata.Get(broker.MetaTopic) != topic || msg.UUID == "" || madeUp != (test.id == "") || !madeUp && msg.UUID != test.id {
			t.Errorf("%v: id %q, topic %q", test.record.Headers, msg.UUID, msg.Metadata.Get(broker.MetaTopic))
		}
		if string(test.record.Key) == "k" && msg.Metadata.Get("a") != "1" {
			t.Errorf("header %q, want the first", msg.Metadata.Get("a"))
		}
	}
}

// TestBatchThatIsRefusedFailsWhatIsAtFault publishes a message that is too large for its
// topic between smaller ones, as a client that can't read the settings of the topic.
func TestBatchThatIsRefusedFailsWhatIsAtFault(t *testing.T) {
	t.Parallel()
	c, r := serve(t), routing()
	topic := r.EventsOf("acme")
	must(t, c.CreateTopic(topic, 1, map[string]string{"max.message.bytes": "200000"}))
	b := ready(t, kafka.Options{URL: c.url(), Routing: r, Client: true})
	var messages []broker.Message
	for _, size := range []int{10, 250_000, 20, 30} {
		messages = append(messages, broker.Message{Topic: topic, Message: message.NewMessage(strconv.Itoa(size), []byte(strings.Repeat("x", size)))})
	}
	for i, err := range b.Publisher().Publish(t.Context(), messages...) {
		if errors.Is(err, broker.ErrRefused) != (i == 1) || (err != nil) != (i == 1) {
			t.Errorf("message of %d bytes: %v", len(messages[i].Payload), err)
		}
	}
	if n := c.records(topic); n != 3 {
		t.Errorf("%d messages are stored, want 3", n)
	}
}

// TestTheSameInstanceIsTheSameMember starts a service again under its name. The group has
// one member of that name, before and after.
func TestTheSameInstanceIsTheSameMember(t *testing.T) {
	t.Parallel()
	c, r := serve(t), routing()
	admin := kadm.NewClient(client(t, c))
	for _, body := range []string{"first", "second"} {
		b, stop := start(t, kafka.Options{URL: c.url(), Routing: r, Instance: "one"})
		messages, _ := subscribe(t, b, r.Commands)
		publish(t, b, r.Commands, body)
		expect(t, messages, body)
		groups, err := admin.DescribeGroups(t.Context(), "reader."+r.Commands)
		must(t, err)
		for _, g := range groups {
			if len(g.Members) != 1 || g.Members[0].InstanceID == nil || *g.Members[0].InstanceID != "one" {
				t.Errorf("members of %s: %+v", g.Group, g.Members)
			}
		}
		stop()
	}
}

// TestGroupThatCanNotBeJoinedIsReported has a server that refuses the member, as one does whose
// limits of the session are others, or who may not read as the group any more.
func TestGroupThatCanNotBeJoinedIsReported(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster, opt kafka.Options) {
		refusal := kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Err: kerr.GroupAuthorizationFailed, Count: -1}
		b, stop := start(t, opt)
		defer stop()
		restore := c.Fault(refusal).Remove
		messages, _ := subscribe(t, b, b.Routing().Commands)
		reported(t, b, messages, refusal.Err, "reader."+b.Routing().Commands, restore)
	})
}

// TestTopicThatMayNotBeReadAnyMoreIsReported takes the permission away while the topic is read. The
// server is not asked again and again without a pause, for which time would not pass here.
func TestTopicThatMayNotBeReadAnyMoreIsReported(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster, opt kafka.Options) {
		denial := kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.TopicAuthorizationFailed, Count: -1}
		b, stop := start(t, opt)
		defer stop()
		messages, _ := subscribe(t, b, b.Routing().Commands)
		publish(t, b, b.Routing().Commands, "before")
		(<-messages).Ack()
		must(t, b.Ready(t.Context()))
		reported(t, b, messages, denial.Err, "", c.Fault(denial).Remove)
	})
}

// reported fails the test unless the broker is not ready, for a reason, until messages come.
func reported(t *testing.T, b *kafka.Broker, messages <-chan *message.Message, why error, says string, restore func()) {
	t.Helper()
	publish(t, b, b.Routing().Commands, "waits")
	time.Sleep(2 * time.Second)
	for range 10 {
		if err := b.Ready(t.Context()); !errors.Is(err, why) || !strings.Contains(err.Error(), says) {
			t.Fatalf("ready without a message: %v", err)
		}
		time.Sleep(500 * time.Millisecond)
	}
	restore()
	(<-messages).Ack()
	time.Sleep(2 * time.Second)
	must(t, b.Ready(t.Context()))
}
