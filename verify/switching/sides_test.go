package switching_test

import (
	"bufio"
	"context"
	"io"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/gochannel"
	"github.com/event-service-agent/timer-service/broker/nats/embedded"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/internal/proxy"
	"github.com/event-service-agent/timer-service/service"
	"github.com/event-service-agent/timer-service/store/sqlite"
)

// role is whose the queues are that RabbitMQ keeps events in.
const role = "timer-service"

// remote is a broker with a server, and the service as it is run by itself.
type remote struct {
	label    string
	environ  []string // of the service
	direct   string   // URL of the server, if the one in environ is not
	take     func()   // the server from the service, while timers still fire
	cut      func()   // all connections
	give     func()   // the server back
	client   broker.Broker
	end      func() // of the service
	endOther func() // of the client
}

func (r *remote) accepts() int { return 0 }

func (r *remote) name() string { return r.label }

func (r *remote) config(t *testing.T, db string, more ...string) config.Config {
	t.Helper()
	cfg, err := config.Load(nil, append(append(r.environ, "TIMER_BROKER="+r.label, "TIMER_DB_PATH="+db, "TIMER_DRAIN_TIMEOUT=100", "TIMER_POLLING_INTERVAL="+interval.String()), more...), "")
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func (r *remote) start(t *testing.T, db string) <-chan got {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	in, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- service.Run(ctx, r.config(t, db), out, quiet)
		out.Close()
	}()
	lines := bufio.NewScanner(in)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "ready") {
	}
	go io.Copy(io.Discard, in) // a pipe blocks its writer
	r.end = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the service: %v", err)
		}
	}
	var direct []string
	if r.direct != "" {
		direct = append(direct, "TIMER_BROKER_URL="+r.direct)
	}
	cfg := r.config(t, db, direct...)
	client, _, err := service.Client(cfg, quiet)
	if err != nil {
		t.Fatal(err)
	}
	r.client, r.endOther = client, run(t, client)
	events, err := client.Subscriber(role).Subscribe(context.Background(), client.Routing().EventsOf(tenant))
	if err != nil {
		t.Fatal(err)
	}
	return read(t, events)
}

func (r *remote) publish(t *testing.T, commands ...*message.Message) {
	t.Helper()
	if err := broker.NewWatermillPublisher(r.client.Publisher()).Publish(r.client.Routing().CommandsOf(tenant), commands...); err != nil {
		t.Fatal(err)
	}
}

func (r *remote) away(*testing.T) { r.take() }

func (r *remote) stop(*testing.T) {
	r.cut() // nothing waits for an answer any more
	r.end()
	r.give()
	r.endOther()
}

// silence has a server behind a proxy say nothing: nothing fires once the service
// knows that, but for some seconds it does not.
func (r *remote) silence(p *proxy.Proxy) {
	r.take = func() { p.Drop(proxy.ToServer, proxy.ToClient) }
	r.cut = func() { p.Refuse(); p.Reset() }
	r.give = p.Pass
}

func newNATS(t *testing.T) side {
	t.Helper()
	server, err := embedded.Start(embedded.Options{StoreDir: t.TempDir()}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	p := proxy.New(proxy.TCP(strings.TrimPrefix(server.URL(), "nats://")))
	address, err := p.Listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	r := &remote{label: "nats", environ: []string{"TIMER_BROKER_URL=nats://" + address}, direct: server.URL()}
	r.silence(p)
	return r
}

// newKafka returns a cluster that refuses events and accepts commands.
func newKafka(t *testing.T) side {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	r := &remote{label: "kafka", environ: []string{"TIMER_BROKER_URL=kafka://" + cluster.ListenAddrs()[0]}, cut: func() {}}
	r.take = func() {
		events := kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "service.events", Err: kerr.NotEnoughReplicas, Count: -1}
		r.give = cluster.Fault(events).Remove
	}
	return r
}

// newRabbitMQ returns nil if there is no server.
func newRabbitMQ(t *testing.T) side {
	t.Helper()
	direct := os.Getenv("TIMER_TEST_RABBITMQ")
	if direct == "" && os.Getenv("TIMER_TEST_REQUIRE") != "" {
		t.Fatal("TIMER_TEST_RABBITMQ is not set")
	}
	if direct == "" {
		t.Log("SKIPPED: set TIMER_TEST_RABBITMQ to the URL of a RabbitMQ server to go there too")
		return nil
	}
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal("TIMER_TEST_RABBITMQ is not a URL")
	}
	p := proxy.New(proxy.TCP(u.Host))
	if u.Host, err = p.Listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	prefix := "switching-" + uuid.NewString()[:8]
	t.Cleanup(func() { cleanUp(t, direct, prefix) })
	r := &remote{
		label: "rabbitmq", direct: direct,
		environ: []string{
			"TIMER_BROKER_URL=" + u.String(), "TIMER_RABBITMQ_EXCHANGE=" + prefix,
			"TIMER_COMMANDS_TOPIC=" + prefix + ".commands", "TIMER_EVENTS_TOPIC=" + prefix + ".{tenant}.q", "TIMER_DEAD_LETTERS_TOPIC=" + prefix + ".{tenant}.dlq",
		},
	}
	r.silence(p)
	return r
}

// cleanUp removes what the service has made in a server that others use too.
func cleanUp(t *testing.T, url, prefix string) {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		t.Error(err)
		return
	}
	for _, queue := range []string{".commands", "." + string(tenant) + ".q", "._.dlq"} {
		if _, err := ch.QueueDelete(prefix+queue, false, false, false); err != nil {
			t.Error(err)
		}
	}
	if err := ch.ExchangeDelete(prefix, false, false); err != nil {
		t.Error(err)
	}
}

// local is gochannel, with the service as part of this process.
type local struct {
	broker *gochannel.Broker
	held   chan struct{} // closed when the consumer acks no more
	lost   atomic.Int64  // events that came since
	end    func()
}

func newLocal() side { return new(local) }

func (l *local) accepts() int { return timers / 5 }

func (l *local) name() string { return "gochannel" }

// start gives the broker capacity for less than fires at once, so that events wait
// when their consumer takes none.
func (l *local) start(t *testing.T, db string) <-chan got {
	t.Helper()
	l.broker = gochannel.New(gochannel.Options{Pending: timers / 5}, quiet)
	l.held = make(chan struct{})
	endBroker := run(t, l.broker)
	events, err := l.broker.Subscriber("consumer").Subscribe(context.Background(), l.broker.Routing().EventsOf(tenant))
	if err != nil {
		t.Fatal(err)
	}
	store, err := sqlite.Open(t.Context(), db, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.New(store, l.broker, quiet, app.Options{DrainTimeout: 1, PollingInterval: interval})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	<-a.Running()
	l.end = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the app: %v", err)
		}
		if err := store.Close(); err != nil {
			t.Errorf("close the store: %v", err)
		}
		endBroker()
	}
	return read(t, l.until(events))
}

// until passes messages on until the consumer is held.
func (l *local) until(in <-chan *message.Message) <-chan *message.Message {
	out := make(chan *message.Message)
	go func() {
		defer close(out)
		for m := range in {
			select {
			case <-l.held:
				l.lost.Add(1)
			default:
				out <- m
			}
		}
	}()
	return out
}

func (l *local) publish(t *testing.T, commands ...*message.Message) {
	t.Helper()
	if err := broker.NewWatermillPublisher(l.broker.Publisher()).Publish(l.broker.Routing().CommandsOf(tenant), commands...); err != nil {
		t.Fatal(err)
	}
}

func (l *local) away(*testing.T) { close(l.held) }

func (l *local) stop(t *testing.T) {
	await(t, "the broker accepts events", func() bool { return l.lost.Load() == int64(l.accepts()) })
	l.end()
}
