package kafka_test

import (
	"context"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/kafka"
)

// instance runs a broker under a name until stop is called.
func instance(t *testing.T, opt kafka.Options) (b *kafka.Broker, stop func()) {
	t.Helper()
	b = kafka.New(opt, quiet)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	return b, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

// publishOne publishes until that works.
func publishOne(t *testing.T, b *kafka.Broker, topic, body string) {
	t.Helper()
	for broker.NewWatermillPublisher(b.Publisher()).Publish(topic, message.NewMessage(body, []byte(body))) != nil {
		if t.Context().Err() != nil {
			t.Fatal("could not publish")
		}
	}
}

// TestTheSameInstanceIsTheSameMember starts a service again under its name: the
// group has one member, which has that name, before and after.
func TestTheSameInstanceIsTheSameMember(t *testing.T) {
	t.Parallel()
	c, r := serve(t), routing()
	opt := kafka.Options{URL: c.url(), Routing: r, Instance: "one"}
	admin, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	for _, body := range []string{"first", "second"} {
		b, stop := instance(t, opt)
		messages, err := b.Subscriber("role").Subscribe(t.Context(), r.Commands)
		if err != nil {
			t.Fatal(err)
		}
		publishOne(t, b, r.Commands, body)
		m := <-messages
		if string(m.Payload) != body {
			t.Errorf("got %q, want %q", m.Payload, body)
		}
		m.Ack()
		groups, err := kadm.NewClient(admin).DescribeGroups(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range groups {
			if len(g.Members) != 1 || g.Members[0].InstanceID == nil || *g.Members[0].InstanceID != "one" {
				t.Errorf("members of %s: %+v", g.Group, g.Members)
			}
		}
		stop()
	}
}

// TestTwoOfOneInstance starts a second process under the name of one that runs:
// Kafka lets the newer one have it. When that has gone the older one goes on.
func TestTwoOfOneInstance(t *testing.T) {
	t.Parallel()
	c, r := serve(t), routing()
	opt := kafka.Options{URL: c.url(), Routing: r, Instance: "one"}
	older, stopOlder := instance(t, opt)
	defer stopOlder()
	seen, err := older.Subscriber("role").Subscribe(t.Context(), r.Commands)
	if err != nil {
		t.Fatal(err)
	}
	publishOne(t, older, r.Commands, "first")
	(<-seen).Ack()

	newer, stopNewer := instance(t, opt)
	stolen, err := newer.Subscriber("role").Subscribe(t.Context(), r.Commands)
	if err != nil {
		t.Fatal(err)
	}
	for n, had := 0, false; !had; n++ {
		publishOne(t, newer, r.Commands, "to either")
		select {
		case m := <-seen:
			m.Ack()
		case m := <-stolen:
			m.Ack()
			had = true
		}
	}
	stopNewer()
	for {
		publishOne(t, older, r.Commands, "last")
		m := <-seen
		m.Ack()
		if string(m.Payload) == "last" {
			return
		}
	}
}
