package nats_test

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/brokertest"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/broker/nats/embedded"
)

const topic = "svc.acme.serviceCall"

// The client library waits 2 s for a server when it connects, and 5 s for each answer of
// JetStream. A busy machine may need longer.
var (
	unhurried = natsgo.Timeout(time.Minute)
	answers   = jetstream.WithDefaultTimeout(time.Minute)
)

var (
	must          = brokertest.Must
	until         = brokertest.Await
	awaitReady    = brokertest.AwaitReady
	awaitNotReady = brokertest.AwaitNotReady
	expect        = brokertest.Expect
)

// bubble runs a test that reconnects in a bubble of testing/synctest. The client
// library keeps the timer of a reconnect for its next use (timer.go,
// nats.go v1.55.0), and a timer of a bubble is fatal elsewhere. Two collections
// of garbage empty what it is kept in.
func bubble(t *testing.T, test func(*testing.T)) {
	t.Helper()
	synctest.Test(t, test)
	runtime.GC()
	runtime.GC()
}

// serve starts a server that only this process reaches, and that does not wait for its
// disk.
func serve(t testing.TB) *embedded.Server { return start(t, true) }

// syncing starts one that waits for its disk before each ack, as a service has it. Large
// calls are published to it in batches.
func syncing(t testing.TB) *embedded.Server { return start(t, false) }

func start(t testing.TB, lazily bool) *embedded.Server {
	t.Helper()
	e, err := embedded.Start(embedded.Options{StoreDir: t.TempDir(), DontListen: true, SyncLazily: lazily}, quiet)
	must(t, err)
	t.Cleanup(e.Shutdown)
	return e
}

// run runs a broker until the test ends.
func run(t testing.TB, opt nats.Options) *nats.Broker {
	t.Helper()
	return runLogging(t, opt, quiet)
}

// runLogging runs a broker with a log until the test ends.
func runLogging(t testing.TB, opt nats.Options, log *slog.Logger) *nats.Broker {
	t.Helper()
	b := nats.New(opt, log)
	brokertest.Start(t, b)
	return b
}

// provision makes what is missing at a server.
func provision(t testing.TB, e *embedded.Server) {
	t.Helper()
	if _, err := nats.New(nats.Options{Server: e}, quiet).Provision(t.Context(), false); err != nil {
		t.Fatal(err)
	}
}

// ready runs a broker until the test ends, and waits until it is ready.
func ready(t testing.TB, opt nats.Options) *nats.Broker {
	t.Helper()
	b := run(t, opt)
	awaitReady(t, b)
	return b
}

// subscribe subscribes a role until the test ends.
func subscribe(t testing.TB, b *nats.Broker, role, topic string) <-chan *message.Message {
	t.Helper()
	messages, _ := brokertest.Subscribe(t, b, role, topic)
	return messages
}

// try publishes messages to a subject.
func try(b broker.Broker, subject string, messages ...*message.Message) error {
	return broker.NewWatermillPublisher(b.Publisher()).Publish(subject, messages...)
}

// publish publishes messages without a key to the topic, one after the other.
func publish(t testing.TB, b *nats.Broker, bodies ...string) {
	t.Helper()
	brokertest.Publish(t, b, topic, bodies...)
}

// client returns a connection that knows nothing of ours.
func client(t testing.TB, e *embedded.Server) (*natsgo.Conn, jetstream.JetStream) {
	t.Helper()
	return dial(t, "", natsgo.InProcessServer(e))
}

// dial returns a connection with a server.
func dial(t testing.TB, url string, opt ...natsgo.Option) (*natsgo.Conn, jetstream.JetStream) {
	t.Helper()
	conn, err := natsgo.Connect(url, append(opt, unhurried)...)
	must(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn, answers)
	must(t, err)
	return conn, js
}

// streamOf returns the stream of the service.
func streamOf(t testing.TB, js jetstream.JetStream) jetstream.Stream {
	return streamNamed(t, js, "svc")
}

func streamNamed(t testing.TB, js jetstream.JetStream, name string) jetstream.Stream {
	t.Helper()
	stream, err := js.Stream(t.Context(), name)
	must(t, err)
	return stream
}

// makeStream makes a stream, as an administrator does.
func makeStream(t testing.TB, js jetstream.JetStream, config jetstream.StreamConfig) jetstream.Stream {
	t.Helper()
	stream, err := js.CreateStream(t.Context(), config)
	must(t, err)
	return stream
}

// makeConsumer makes a consumer of the stream of the service with explicit acks.
func makeConsumer(t testing.TB, js jetstream.JetStream, config jetstream.ConsumerConfig) jetstream.Consumer {
	t.Helper()
	config.AckPolicy = jetstream.AckExplicitPolicy
	c, err := js.CreateConsumer(t.Context(), "svc", config)
	must(t, err)
	return c
}

// put stores a message as any producer may.
func put(t testing.TB, js jetstream.JetStream, m *natsgo.Msg, opt ...jetstream.PublishOpt) {
	t.Helper()
	_, err := js.PublishMsg(t.Context(), m, opt...)
	must(t, err)
}

// fails fails the test unless there is an error that says all this.
func fails(t testing.TB, err error, says ...string) {
	t.Helper()
	for _, text := range says {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error %v, want %q", err, text)
		}
	}
}

// running runs a broker until ctx is done, and returns what Run returns.
func running(ctx context.Context, b broker.Broker) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	return ended
}
