package service_test

import (
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kfake"
	_ "modernc.org/sqlite" // the same

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/nats/embedded"
	"github.com/event-service-agent/timer-service/internal/proxy"
	"github.com/event-service-agent/timer-service/timer"
)

// A site is a broker that the service reaches, through a proxy if there is one.
type site struct {
	environ []string // of the service
	proxy   *proxy.Proxy
}

var sites = map[string]func(*testing.T) site{"nats": natsSite, "rabbitmq": rabbitSite}

func between(t *testing.T, address string) (p *proxy.Proxy, at string) {
	t.Helper()
	p = proxy.New(proxy.TCP(address))
	at, err := p.Listen()
	must(t, err)
	t.Cleanup(func() { p.Close() })
	return p, at
}

func natsSite(t *testing.T) site {
	p, at := between(t, strings.TrimPrefix(natsServer(t), "nats://"))
	return site{[]string{"TIMER_BROKER_URL=nats://" + at}, p}
}

func kafkaSite(t *testing.T) site {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	must(t, err)
	t.Cleanup(cluster.Close)
	return site{environ: []string{"TIMER_BROKER=kafka", "TIMER_BROKER_URL=kafka://" + cluster.ListenAddrs()[0]}}
}

func rabbitSite(t *testing.T) site {
	direct := os.Getenv("TIMER_TEST_RABBITMQ")
	if direct == "" && os.Getenv("TIMER_TEST_REQUIRE") != "" {
		t.Fatal("TIMER_TEST_RABBITMQ is not set")
	}
	if direct == "" {
		t.Skip("SKIPPED: set TIMER_TEST_RABBITMQ to the URL of a RabbitMQ server")
	}
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal("TIMER_TEST_RABBITMQ is not a URL")
	}
	p, at := between(t, u.Host)
	u.Host = at
	prefix := "catchup-" + uuid.NewString()[:8]
	r := broker.Routing{Commands: prefix + ".commands", Events: prefix + ".{tenant}.q", DeadLetters: prefix + ".{tenant}.dlq"}
	t.Cleanup(func() { sweep(t, direct, prefix, r) })
	return site{
		environ: []string{
			"TIMER_BROKER=rabbitmq", "TIMER_BROKER_URL=" + u.String(), "TIMER_RABBITMQ_EXCHANGE=" + prefix,
			"TIMER_COMMANDS_TOPIC=" + r.Commands, "TIMER_EVENTS_TOPIC=" + r.Events, "TIMER_DEAD_LETTERS_TOPIC=" + r.DeadLetters,
		},
		proxy: p,
	}
}

// sweep removes the objects of the service from a server that others use too.
func sweep(t *testing.T, direct, prefix string, r broker.Routing) {
	conn, err := amqp.Dial(direct)
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
	queues := []string{r.Commands, r.Commands + ".owner", r.EventsOf("acme"), r.DeadLettersOf(timer.NoTenant)}
	for _, queue := range queues {
		if _, err := ch.QueueDelete(queue, false, false, false); err != nil {
			t.Error(err)
		}
	}
	for _, exchange := range []string{prefix, prefix + ".commands"} {
		if err := ch.ExchangeDelete(exchange, false, false); err != nil {
			t.Error(err)
		}
	}
}

// until polls until something has happened.
func until(t *testing.T, what string, happened func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for !happened() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waited a minute in vain for %s", what)
		}
	}
}

// natsServer starts a server of its own, and returns its URL.
func natsServer(t *testing.T) string {
	t.Helper()
	server, err := embedded.Start(embedded.Options{StoreDir: t.TempDir()}, quiet)
	must(t, err)
	t.Cleanup(server.Shutdown)
	return server.URL()
}
