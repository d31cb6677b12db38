package kafka_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/kafka"
)

// client returns a client that knows nothing of ours.
func client(t testing.TB, c *cluster, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(c.ListenAddrs()...))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// one makes a topic with one partition.
func one(t testing.TB, c *cluster, topic string) {
	t.Helper()
	if err := c.CreateTopic(topic, 1, nil); err != nil {
		t.Fatal(err)
	}
}

// numbers returns the bodies "0" to "n-1".
func numbers(n int) (bodies []string) {
	for i := range n {
		bodies = append(bodies, strconv.Itoa(i))
	}
	return bodies
}

// TestNothingIsCommittedBeforeItIsAcked holds one message of many in a
// partition. The offset stands at it, and a second instance gets it, and what
// came later, but nothing that was acked.
func TestNothingIsCommittedBeforeItIsAcked(t *testing.T) {
	t.Parallel()
	c, r := serve(t), routing()
	opt, topic := kafka.Options{URL: c.url(), Routing: r}, r.EventsOf("acme")
	one(t, c, topic)
	b, stop := start(t, opt)
	messages, s := subscribe(t, b, topic)
	publish(t, b, topic, numbers(100)...)
	var held []*message.Message
	for range 100 {
		msg := <-messages
		if n, _ := strconv.Atoi(string(msg.Payload)); n == 10 || n == 90 {
			held = append(held, msg)
			continue
		}
		msg.Ack()
	}
	if !slices.ContainsFunc(held, func(m *message.Message) bool { return m.Metadata.Get(broker.MetaPosition) == "0/10" }) {
		t.Fatalf("held %v", held)
	}
	admin := kadm.NewClient(client(t, c))
	until(t, "a commit of what is below the first that is held, and of what is above", func() bool {
		offsets, err := admin.FetchOffsets(t.Context(), "reader."+topic)
		if err != nil {
			t.Fatal(err)
		}
		o, ok := offsets.Lookup(topic, 0)
		if ok && o.At > 10 {
			t.Fatalf("committed %d", o.At)
		}
		return ok && o.At == 10 && o.Metadata == "acked:AU8BCQ" // one is not, 79 are, one is not, 9 are
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	publish(t, b, topic, "later")
	held[1].Ack() // after Close, and before the end
	until(t, "a commit of what was acked after Close", func() bool {
		offsets, err := admin.FetchOffsets(t.Context(), "reader."+topic)
		o, ok := offsets.Lookup(topic, 0)
		return err == nil && ok && o.Metadata != "acked:AU8BCQ"
	})
	stop()

	second, _ := subscribe(t, ready(t, opt), topic)
	var got []string
	for range 2 {
		msg := <-second
		got = append(got, string(msg.Payload))
		msg.Ack()
	}
	slices.Sort(got) // without a key there is no order
	if want := []string{string(held[0].Payload), "later"}; cmp.Diff(want, got) != "" {
		t.Errorf("the second instance got %q, want %q", got, want)
	}
}

// TestMembersThatComeAndGoKeepTheOrder adds instances and stops them while
// messages of many keys are published, and reads all of them.
func TestMembersThatComeAndGoKeepTheOrder(t *testing.T) {
	t.Parallel()
	const keys, each, members = 30, 40, 6
	c, r := serve(t), routing()
	opt, topic := kafka.Options{URL: c.url(), Routing: r}, r.EventsOf("acme")
	b := ready(t, opt)
	merged := make(chan *message.Message)
	first, _ := subscribe(t, b, topic)
	join := func(messages <-chan *message.Message) {
		for msg := range messages {
			merged <- msg
		}
	}
	go join(first)
	go func() {
		for n := range each {
			load(b, topic, keys, n+1)
		}
	}()
	in := reader{t: t, seen: make(map[string]int)}
	for i := range members {
		if i%2 == 0 {
			other, s := subscribe(t, ready(t, opt), topic)
			go join(other)
			in.read(merged, keys, (i+1)*each/members)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		} else {
			in.read(merged, keys, (i+1)*each/members)
		}
	}
}

// TestTopicThatIsMadeAnewIsRead deletes a topic while it is subscribed to, and
// makes it again, where offsets begin anew.
func TestTopicThatIsMadeAnewIsRead(t *testing.T) {
	t.Parallel()
	c, r := serve(t), routing()
	b := ready(t, kafka.Options{URL: c.url(), Routing: r})
	topic := r.EventsOf("acme")
	messages, _ := subscribe(t, b, topic)
	publish(t, b, topic, numbers(50)...)
	for range 50 {
		(<-messages).Ack()
	}
	if err := c.DeleteTopic(topic); err != nil {
		t.Fatal(err)
	}
	until(t, "a topic that is made again", func() bool {
		m := message.NewMessage("anew", []byte("anew"))
		return b.Publisher().Publish(topic, m) == nil
	})
	expect(t, messages, "anew")
}

// TestLogThatWasCutIsReadFromWhatIsLeft removes records that nobody has read.
func TestLogThatWasCutIsReadFromWhatIsLeft(t *testing.T) {
	t.Parallel()
	c, r := serve(t), routing()
	opt, topic := kafka.Options{URL: c.url(), Routing: r}, r.EventsOf("acme")
	one(t, c, topic)
	b := ready(t, opt)
	messages, s := subscribe(t, b, topic)
	publish(t, b, topic, "0")
	expect(t, messages, "0")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	publish(t, b, topic, numbers(10)...)
	if err := c.DeleteRecords(topic, 0, 6); err != nil {
		t.Fatal(err)
	}
	messages, _ = subscribe(t, b, topic)
	var got []string
	for range 5 {
		msg := <-messages
		got = append(got, string(msg.Payload)) // without a key there is no order
		msg.Ack()
	}
	slices.Sort(got)
	if diff := cmp.Diff(numbers(10)[5:], got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPartitionsThatAreAddedAreRead adds partitions to a topic that is
// subscribed to, and tailed.
func TestPartitionsThatAreAddedAreRead(t *testing.T) {
	t.Parallel()
	c, r := serve(t), routing()
	b := ready(t, kafka.Options{URL: c.url(), Routing: r})
	topic := r.EventsOf("acme")
	one(t, c, topic)
	messages, _ := subscribe(t, b, topic)
	tail, err := b.Tail().Subscribe(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	cl := client(t, c, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if _, err := kadm.NewClient(cl).UpdatePartitions(t.Context(), 4, topic); err != nil {
		t.Fatal(err)
	}
	want := make(map[string]bool)
	for n := range int32(4) {
		body := fmt.Sprint("partition ", n)
		want[body] = true
		until(t, "a record that is stored", func() bool {
			return cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: n, Value: []byte(body)}).FirstErr() == nil
		})
	}
	for _, in := range []<-chan *message.Message{messages, tail} {
		got := make(map[string]bool)
		for range want {
			msg := <-in
			got[string(msg.Payload)] = true
			msg.Ack()
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// TestForeignRecordsArrive publishes what other clients do: no headers, no key,
// headers twice, nothing at all, packed.
func TestForeignRecordsArrive(t *testing.T) {
	t.Parallel()
	c, r := serve(t), routing()
	b := ready(t, kafka.Options{URL: c.url(), Routing: r})
	topic := r.EventsOf("acme")
	one(t, c, topic)
	messages, _ := subscribe(t, b, topic)
	cl := client(t, c, kgo.ProducerBatchCompression(kgo.GzipCompression()))
	for _, record := range []*kgo.Record{
		{Value: []byte("bare")},
		{Value: nil},
		{Key: []byte("k"), Value: []byte("twice"), Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "a", Value: []byte("2")}, {Key: "", Value: nil}}},
		{Value: []byte("named"), Headers: []kgo.RecordHeader{{Key: "messageId", Value: []byte("id-1")}, {Key: "broker_topic", Value: []byte("x")}}},
		{Value: []byte("watermill"), Headers: []kgo.RecordHeader{{Key: "_watermill_message_uuid", Value: []byte("id-2")}}},
		{Value: []byte(strings.Repeat("packed ", 9000))},
	} {
		record.Topic = topic
		if err := cl.ProduceSync(t.Context(), record).FirstErr(); err != nil {
			t.Fatal(err)
		}
		msg := expect(t, messages, string(record.Value))
		if msg.UUID == "" || msg.Metadata.Get(broker.MetaTopic) != topic {
			t.Errorf("%.20q: id %q, topic %q", record.Value, msg.UUID, msg.Metadata.Get(broker.MetaTopic))
		}
		switch string(msg.Payload) {
		case "twice":
			if msg.Metadata.Get("a") != "1" {
				t.Errorf("header %q, want the first", msg.Metadata.Get("a"))
			}
		case "named", "watermill":
			if !strings.HasPrefix(msg.UUID, "id-") {
				t.Errorf("id %q, want that of the header", msg.UUID)
			}
		}
	}
}

// TestBatchesFitTheTopic publishes more at once than the topic takes in a batch.
func TestBatchesFitTheTopic(t *testing.T) {
	t.Parallel()
	c, r := serve(t), routing()
	topic := r.EventsOf("acme")
	limit := "131072"
	if err := c.CreateTopic(topic, 1, map[string]string{"max.message.bytes": limit}); err != nil {
		t.Fatal(err)
	}
	b := ready(t, kafka.Options{URL: c.url(), Routing: r})
	var batch []*message.Message
	for i := range 1000 {
		batch = append(batch, message.NewMessage(strconv.Itoa(i), []byte(strings.Repeat("x", 1000))))
	}
	if err := b.Publisher().Publish(topic, batch...); err != nil {
		t.Errorf("a thousand small messages to a topic that takes %s bytes at once: %v", limit, err)
	}
}
