package interop_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

// receiveTimeout is how long a message is waited for.
const receiveTimeout = time.Minute

type natsWire struct{ js jetstream.JetStream }

func natsClient(t *testing.T, settings ...string) (c brokerClient, events, deadLetters string) {
	t.Helper()
	return connectNATS(t, serve(t, append(settings, "TIMER_BROKER=nats", "TIMER_BROKER_URL=", "TIMER_NATS_PORT=0")...)),
		"svc." + wireTenant + ".serviceCall", "svc." + wireTenant + ".dlq"
}

func connectNATS(t *testing.T, url string) natsWire {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return natsWire{js}
}

func (c natsWire) send(t *testing.T, body string, headers map[string]string) {
	t.Helper()
	c.publish(t, "timer.commands", body, headers)
}

func (c natsWire) publish(t *testing.T, topic, body string, headers map[string]string) {
	t.Helper()
	m := nats.NewMsg(topic)
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
	if err != nil {
		t.Fatal(err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		t.Fatal(err)
	}
	defer messages.Stop()
	for range n {
		m, err := messages.Next(jetstream.NextMaxWait(receiveTimeout))
		if err != nil {
			t.Fatalf("%d of %d messages on %s: %v", len(all), n, topic, err)
		}
		w := wire{topic: m.Subject(), headers: make(map[string]string), id: m.Headers().Get("Nats-Msg-Id"), body: string(m.Data())}
		for name, values := range m.Headers() {
			w.headers[name] = strings.Join(values, ", ")
		}
		all = append(all, w)
	}
	return all
}

type kafkaWire struct{ address string }

func kafkaClient(t *testing.T, settings ...string) (c brokerClient, events, deadLetters string) {
	t.Helper()
	return kafkaWire{serveKafka(t, settings...)}, "service.events", "service.events." + wireTenant + ".dlq"
}

func (c kafkaWire) client(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(c.address), kgo.MetadataMinAge(100*time.Millisecond))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func (c kafkaWire) send(t *testing.T, body string, headers map[string]string) {
	t.Helper()
	c.publish(t, "timer.commands", body, headers)
}

func (c kafkaWire) publish(t *testing.T, topic, body string, headers map[string]string) {
	t.Helper()
	r := &kgo.Record{Topic: topic, Value: []byte(body)}
	for name, value := range headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	if err := c.client(t).ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
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
			w := wire{topic: r.Topic, headers: make(map[string]string), key: string(r.Key), body: string(r.Value)}
			for _, h := range r.Headers {
				w.headers[h.Key] = string(h.Value)
			}
			all = append(all, w)
		})
	}
	return all
}

type rabbitWire struct {
	*amqp.Connection
	commands string
}

func rabbitClient(t *testing.T, settings ...string) (c brokerClient, events, deadLetters string) {
	t.Helper()
	r := serveRabbitMQ(t, wireTenant, settings...)
	return connectRabbitMQ(t, r), strings.ReplaceAll(r.events, "{tenant}", wireTenant), strings.ReplaceAll(r.deadLetters, "{tenant}", wireTenant)
}

func connectRabbitMQ(t *testing.T, r rabbitMQ) rabbitWire {
	t.Helper()
	conn, err := amqp.Dial(r.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return rabbitWire{conn, r.commands}
}

func (c rabbitWire) send(t *testing.T, body string, headers map[string]string) {
	t.Helper()
	c.publish(t, c.commands, body, headers)
}

func (c rabbitWire) publish(t *testing.T, topic, body string, headers map[string]string) {
	t.Helper()
	ch, err := c.Channel()
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	table := make(amqp.Table)
	for name, value := range headers {
		table[name] = value
	}
	if err := ch.PublishWithContext(t.Context(), "", topic, true, false, amqp.Publishing{Headers: table, Body: []byte(body)}); err != nil {
		t.Fatal(err)
	}
}

func (c rabbitWire) receive(t *testing.T, topic string, n int) (all []wire) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), receiveTimeout)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for len(all) < n {
		m, ok := c.get(t, topic)
		if !ok {
			select {
			case <-again.C:
			case <-ctx.Done():
				t.Fatalf("%d of %d messages on %s", len(all), n, topic)
			}
			continue
		}
		w := wire{topic: topic, headers: make(map[string]string), id: m.MessageId, body: string(m.Body)}
		for name, value := range m.Headers {
			w.headers[name], _ = value.(string)
		}
		for name, given := range map[string]bool{
			"content-type": m.ContentType != "", "content-encoding": m.ContentEncoding != "", "delivery-mode": m.DeliveryMode != 0, "priority": m.Priority != 0,
			"correlation-id": m.CorrelationId != "", "reply-to": m.ReplyTo != "", "expiration": m.Expiration != "", "message-id": m.MessageId != "",
			"timestamp": !m.Timestamp.IsZero(), "type": m.Type != "", "user-id": m.UserId != "", "app-id": m.AppId != "",
		} {
			if given {
				w.properties = append(w.properties, name)
			}
		}
		all = append(all, w)
	}
	return all
}

// get returns the next message of a queue. It returns false if there is none, or no
// queue yet.
func (c rabbitWire) get(t *testing.T, queue string) (amqp.Delivery, bool) {
	t.Helper()
	ch, err := c.Channel()
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	m, ok, err := ch.Get(queue, true)
	return m, ok && err == nil
}
