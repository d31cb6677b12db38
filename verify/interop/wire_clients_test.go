package interop_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/verify/internal/harness"
)

// receiveTimeout is how long a message is waited for.
const receiveTimeout = time.Minute

// A wire is what a client without anything of ours sees of a message.
type wire struct {
	topic   string
	headers map[string]string
	body    string
}

// A brokerClient is a plain client of a broker.
type brokerClient interface {
	send(t *testing.T, body string, headers map[string]string)
	receive(t *testing.T, topic string, n int) []wire // the first n messages of a topic
}

type natsWire struct{ js jetstream.JetStream }

func connectNATS(t *testing.T, url string) natsWire {
	t.Helper()
	nc, err := nats.Connect(url)
	harness.Must(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	harness.Must(t, err)
	return natsWire{js}
}

func (c natsWire) send(t *testing.T, body string, headers map[string]string) {
	t.Helper()
	m := nats.NewMsg("timer.commands")
	m.Data = []byte(body)
	for name, value := range headers {
		m.Header[name] = []string{value}
	}
	if _, err := c.js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

func (c natsWire) receive(t *testing.T, topic string, n int) (all []wire) {
	t.Helper()
	consumer, err := c.js.OrderedConsumer(t.Context(), "svc", jetstream.OrderedConsumerConfig{FilterSubjects: []string{topic}})
	harness.Must(t, err)
	messages, err := consumer.Messages()
	harness.Must(t, err)
	defer messages.Stop()
	for range n {
		m, err := messages.Next(jetstream.NextMaxWait(receiveTimeout))
		if err != nil {
			t.Fatalf("%d of %d messages on %s: %v", len(all), n, topic, err)
		}
		w := wire{topic: m.Subject(), headers: make(map[string]string), body: string(m.Data())}
		for name, values := range m.Headers() {
			w.headers[name] = strings.Join(values, ", ")
		}
		all = append(all, w)
	}
	return all
}

type kafkaWire struct{ address string }

func (c kafkaWire) client(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(c.address), kgo.MetadataMinAge(100*time.Millisecond))...)
	harness.Must(t, err)
	t.Cleanup(client.Close)
	return client
}

func (c kafkaWire) send(t *testing.T, body string, headers map[string]string) {
	t.Helper()
	r := &kgo.Record{Topic: "timer.commands", Value: []byte(body)}
	for name, value := range headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	harness.Must(t, c.client(t).ProduceSync(t.Context(), r).FirstErr())
}

func (c kafkaWire) receive(t *testing.T, topic string, n int) (all []wire) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), receiveTimeout)
	defer cancel()
	client := c.client(t, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.UnknownTopicRetries(-1))
	for len(all) < n {
		fetches := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			t.Fatalf("%d of %d messages on %s: %v", len(all), n, topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			w := wire{topic: r.Topic, headers: make(map[string]string), body: string(r.Value)}
			for _, h := range r.Headers {
				w.headers[h.Key] = string(h.Value)
			}
			all = append(all, w)
		})
	}
	return all
}
