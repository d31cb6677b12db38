// Without the race detector: watermill-nats v2.1.3 closes the channel of a
// subscription while it may send on it.

//go:build !race

package watermill_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"testing"
	"time"

	wmnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/brokertest"
	"github.com/event-service-agent/timer-service/broker/watermill"
	"github.com/event-service-agent/timer-service/internal/longtest"
)

// natsInFlight is how many messages of a role are in flight: each takes a
// subscription.
const natsInFlight = 64

var natsFeatures = brokertest.Features{Durable: true, Replays: true, Lacks: lacks(map[string]string{
	"A tail sees what comes later, and acks mean nothing to it":           "its subscriber without JetStream sends acks to the publisher, as if they were those of the server",
	"Canceling Subscribe ends the intake; what is in flight can be acked": "until that is acked the subscription still gets messages, which come again 30 s later",
	"No message waits for another one, whatever its key":                  fewInFlight,
	"Messages that wait for their retry hold back no other":               fewInFlight,
	"Close with messages in flight loses none":                            "what is in flight at Close comes again only after the ack wait, once more for each attempt",
	"Hostile messages stop no good ones":                                  passesHeaders,
	"A topic that can't be one is refused and breaks nothing":             "a topic of more than 4 KiB ends the connection",
})}

const (
	fewInFlight   = "as many messages are in flight as the pair has subscriptions"
	passesHeaders = "headers that are commands to NATS reach the server"
)

func TestNATS(t *testing.T) {
	longtest.Skip(t, "this pair has one message in flight, and nacks wait for real")
	brokertest.Run(t, natsFeatures, openNATS)
}

// openNATS starts a server with a stream for all topics, and makes brokers of
// watermill-nats.
func openNATS(t testing.TB) brokertest.Server {
	dir, port := t.TempDir(), -1
	var running *server.Server
	start := func() {
		var err error
		running, err = server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true})
		if err != nil {
			t.Fatal(err)
		}
		running.Start()
		if !running.ReadyForConnections(time.Minute) {
			t.Fatal("the NATS server did not start")
		}
	}
	start()
	url := running.ClientURL()
	var host string
	if _, err := fmt.Sscanf(strings.ReplaceAll(url, ":", " "), "nats //%s %d", &host, &port); err != nil {
		t.Fatal(err)
	}
	stop := func() {
		running.Shutdown()
		running.WaitForShutdown()
	}
	t.Cleanup(func() { stop() })
	js := jetStream(t, connect(t, url))
	if _, err := js.AddStream(&nats.StreamConfig{Name: "svc", Subjects: []string{"timer.>", "service.>"}, Discard: nats.DiscardNew}); err != nil {
		t.Fatal(err)
	}
	return brokertest.Server{Stop: stop, Start: start, Broker: func() broker.Broker {
		conn := connect(t, url)
		pub, err := wmnats.NewPublisherWithNatsConn(conn, wmnats.PublisherPublishConfig{
			Marshaler: &wmnats.NATSMarshaler{}, SubjectCalculator: wmnats.DefaultSubjectCalculator, JetStream: wmnats.JetStreamConfig{TrackMsgId: true},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return watermill.New(pub, func(role string) (message.Subscriber, error) {
			return roleSubscriber{url: url, js: jetStream(t, conn), role: role}, nil
		}, watermill.Options{
			Ready: func(ctx context.Context) error { return conn.FlushWithContext(ctx) },
			Classify: func(err error) error {
				if !conn.IsConnected() {
					return fmt.Errorf("%w: %w", broker.ErrUnavailable, err)
				}
				return err
			},
		}, quiet)
	}}
}

func connect(t testing.TB, url string) *nats.Conn {
	t.Helper()
	conn, err := nats.Connect(url, options()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func jetStream(t testing.TB, conn *nats.Conn) nats.JetStreamContext {
	t.Helper()
	js, err := conn.JetStream(nats.MaxWait(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// A roleSubscriber makes the durable consumer of a role and a topic before
// watermill-nats subscribes to it: one that watermill-nats made would be deleted
// with its subscription, and everything would be consumed again. Each Subscribe has
// a connection of its own, which ends with it by the Close of watermill-nats: the
// end of the context that it is given lets it send on a closed channel, and panic
// (watermill-nats v2.1.3).
type roleSubscriber struct {
	url  string
	js   nats.JetStreamContext
	role string
}

func (s roleSubscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(topic))
	durable := fmt.Sprintf("%s-%x", s.role, h.Sum64())
	if _, err := s.js.ConsumerInfo("svc", durable); errors.Is(err, nats.ErrConsumerNotFound) {
		_, err = s.js.AddConsumer("svc", &nats.ConsumerConfig{
			Durable: durable, DeliverSubject: "deliver." + durable, DeliverGroup: durable, FilterSubject: topic,
			AckPolicy: nats.AckExplicitPolicy, AckWait: 30 * time.Second, MaxAckPending: natsInFlight, // more would wait behind a message that is held
		})
		if err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	sub, err := wmnats.NewSubscriber(wmnats.SubscriberConfig{
		URL: s.url, NatsOptions: options(),
		QueueGroupPrefix: durable, SubscribersCount: natsInFlight, AckWaitTimeout: 30 * time.Second,
		JetStream: wmnats.JetStreamConfig{DurablePrefix: durable, SubscribeOptions: []nats.SubOpt{nats.ManualAck(), nats.Bind("svc", durable)}},
	}, nil)
	if err != nil {
		return nil, err
	}
	messages, err := sub.Subscribe(context.WithoutCancel(ctx), topic)
	if err != nil {
		return nil, errors.Join(err, sub.Close())
	}
	context.AfterFunc(ctx, func() { _ = sub.Close() })
	return messages, nil
}

func options() []nats.Option {
	return []nats.Option{nats.Timeout(time.Minute), nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond), nats.RetryOnFailedConnect(true), nats.ReconnectBufSize(-1)}
}

func (s roleSubscriber) Close() error { return nil }
