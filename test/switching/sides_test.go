package switching_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/app/service"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/gochannel"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/internal/proxy"
	"github.com/event-service-agent/timer-service/store/sqlite"
)

// role is whose the queues are that RabbitMQ keeps events in.
const role = "timer-service"

// remote is a broker with a server, and the service as it is run by itself.
type remote struct {
	label    string
	environ  []string // of the service
	direct   string   // URL of the server, if the one in environ is not
	take     func()   // the server away
	give     func()   // it back
	client   broker.Broker
	end      func() // of the service
	endOther func() // of the client
}

func (r *remote) name() string { return r.label }

func (r *remote) config(t *testing.T, db string, more ...string) config.Config {
	t.Helper()
	cfg, err := config.Load(nil, append(append(r.environ, "TIMER_BROKER="+r.label, "TIMER_DB_PATH="+db, "TIMER_DRAIN_TIMEOUT=100"), more...), "")
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
	if err := r.client.Publisher().Publish(r.client.Routing().CommandsOf(tenant), commands...); err != nil {
		t.Fatal(err)
	}
}

func (r *remote) away(*testing.T) { r.take() }

func (r *remote) stop(*testing.T) {
	r.end()
	r.give()
	r.endOther()
}

func newNATS(t *testing.T) side {
	t.Helper()
	opt := nats.EmbeddedOptions{StoreDir: t.TempDir()}
	var server *nats.Embedded
	start := func() {
		var err error
		if server, err = nats.StartEmbedded(opt, quiet); err != nil {
			t.Fatal(err)
		}
	}
	start()
	t.Cleanup(func() { server.Shutdown() })
	address := server.URL()
	opt.Port = port(t, strings.TrimPrefix(address, "nats://"))
	return &remote{label: "nats", environ: []string{"TIMER_BROKER_URL=" + address}, take: func() { server.Shutdown() }, give: start}
}

func newKafka(t *testing.T) side {
	t.Helper()
	opts := []kfake.Opt{kfake.NumBrokers(1), kfake.DataDir(t.TempDir())}
	var cluster *kfake.Cluster
	start := func() {
		var err error
		if cluster, err = kfake.NewCluster(opts...); err != nil {
			t.Fatal(err)
		}
	}
	start()
	t.Cleanup(func() { cluster.Close() })
	address := cluster.ListenAddrs()[0]
	opts = append(opts, kfake.Ports(port(t, address)))
	return &remote{label: "kafka", environ: []string{"TIMER_BROKER_URL=kafka://" + address}, take: func() { cluster.Close() }, give: start}
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
	return &remote{
		label: "rabbitmq", direct: direct,
		environ: []string{
			"TIMER_BROKER_URL=" + u.String(), "TIMER_RABBITMQ_EXCHANGE=" + prefix,
			"TIMER_COMMANDS_TOPIC=" + prefix + ".commands", "TIMER_EVENTS_TOPIC=" + prefix + ".{tenant}.q", "TIMER_DEAD_LETTERS_TOPIC=" + prefix + ".{tenant}.dlq",
		},
		take: func() { p.Refuse(); p.Reset() },
		give: p.Pass,
	}
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

func port(t *testing.T, address string) int {
	t.Helper()
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// local is gochannel, with the service as part of this process.
type local struct {
	broker *gochannel.Broker
	held   chan struct{} // closed when the consumer acks no more
	end    func()
}

func newLocal() side { return new(local) }

func (l *local) name() string { return "gochannel" }

// start gives the broker room for less than fires at once, so that events wait
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
	a, err := app.New(store, l.broker, quiet, app.Options{DrainTimeout: 1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	<-a.Running()
	l.end = func() {
		cancel()
		go endBroker() // which ends what waits for room
		if err := <-ended; err != nil {
			t.Errorf("the app: %v", err)
		}
		if err := store.Close(); err != nil {
			t.Errorf("close the store: %v", err)
		}
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
				continue
			default:
				out <- m
			}
		}
	}()
	return out
}

func (l *local) publish(t *testing.T, commands ...*message.Message) {
	t.Helper()
	if err := l.broker.Publisher().Publish(l.broker.Routing().CommandsOf(tenant), commands...); err != nil {
		t.Fatal(err)
	}
}

func (l *local) away(*testing.T) { close(l.held) }

func (l *local) stop(*testing.T) { l.end() }
