package service_test

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	_ "github.com/jackc/pgx/v5/stdlib" // to see and change what the service has
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	_ "modernc.org/sqlite" // the same

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/kafka"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/broker/nats/embedded"
	"github.com/event-service-agent/timer-service/broker/rabbitmq"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/internal/proxy"
	"github.com/event-service-agent/timer-service/timer"
)

// A site is a broker that the service reaches through a proxy, and a producer
// without.
type site struct {
	environ  []string // of the service
	proxy    *proxy.Proxy
	producer broker.Broker
}

var sites = map[string]func(*testing.T) site{"nats": natsSite, "kafka": kafkaSite, "rabbitmq": rabbitSite}

func between(t *testing.T, address string) (p *proxy.Proxy, at string) {
	t.Helper()
	p = proxy.New(proxy.TCP(address))
	at, err := p.Listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p, at
}

func natsSite(t *testing.T) site {
	server, err := embedded.Start(embedded.Options{StoreDir: t.TempDir()}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	p, at := between(t, strings.TrimPrefix(server.URL(), "nats://"))
	return site{
		environ: []string{"TIMER_BROKER_URL=nats://" + at}, proxy: p,
		producer: nats.New(nats.Options{URL: server.URL(), Client: true}, quiet),
	}
}

// A listener says that it is at the address of a proxy.
type listener struct {
	net.Listener
	at net.Addr
}

func (l listener) Addr() net.Addr { return l.at }

func kafkaSite(t *testing.T) site {
	var s site
	var direct string
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ListenFn(func(network, address string) (net.Listener, error) {
		l, err := new(net.ListenConfig).Listen(t.Context(), network, address)
		if err != nil {
			return nil, err
		}
		direct = l.Addr().String()
		p, at := between(t, direct)
		addr, err := net.ResolveTCPAddr("tcp", at)
		s.proxy, s.environ = p, []string{"TIMER_BROKER=kafka", "TIMER_BROKER_URL=kafka://" + at}
		return listener{l, addr}, err
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	s.producer = kafka.New(kafka.Options{URL: direct, Client: true, Connect: []kgo.Opt{kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, direct)
	})}}, quiet)
	return s
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
		proxy:    p,
		producer: rabbitmq.New(rabbitmq.Options{URL: direct, Exchange: prefix, Routing: r, Client: true}, quiet),
	}
}

// sweep removes what the service has made in a server that others use too.
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
	for _, delay := range []string{"2s", "6s", "30s", "2m", "10m"} {
		queues = append(queues, r.Commands+".retry."+delay)
	}
	for _, queue := range queues {
		if _, err := ch.QueueDelete(queue, false, false, false); err != nil {
			t.Error(err)
		}
	}
	if err := ch.ExchangeDelete(prefix, false, false); err != nil {
		t.Error(err)
	}
}

// canceled is how many timers are canceled too late to fire, and in time for a
// service that reads before it fires.
const canceled = 200

// publish publishes commands, which must work.
func (s site) publish(t *testing.T, commands ...*message.Message) {
	t.Helper()
	if err := broker.NewWatermillPublisher(s.producer.Publisher()).Publish(s.producer.Routing().CommandsOf("acme"), commands...); err != nil {
		t.Fatal(err)
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

// TestNothingFiresBeforeWhatWaitsWasRead has timers canceled while the service
// can't read it, and due before it can.
func TestNothingFiresBeforeWhatWaitsWasRead(t *testing.T) {
	t.Parallel()
	for name, open := range sites {
		for _, away := range []string{"service", "broker", "store"} {
			t.Run(name+", the "+away+" is away", func(t *testing.T) {
				t.Parallel()
				lateCancels(t, open(t), away)
			})
		}
	}
}

func lateCancels(t *testing.T, s site, away string) {
	environ := append(s.environ, "TIMER_POLLING_INTERVAL=100", "TIMER_CATCH_UP_TIMEOUT=1m")
	driver, makeDue, path := "sqlite", `UPDATE timer_schedules SET due_at = 1000 * unixepoch()`, filepath.Join(t.TempDir(), "timers.db")
	harmed := s.proxy
	if away == "store" {
		driver, makeDue, path = "pgx", `UPDATE timer_schedules SET due_at = now()`, pgtest.URL(t)
		u, err := url.Parse(path)
		if err != nil {
			t.Fatal(err)
		}
		harmed, u.Host = between(t, u.Host)
		environ = append(environ, "TIMER_DB_URL="+u.String())
	} else {
		environ = append(environ, "TIMER_DB_PATH="+path)
		path = "file:" + path + "?_pragma=busy_timeout(10000)"
	}
	db, err := sql.Open(driver, path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	cfg := load(t, environ...)
	r := run(t, cfg)
	r.line("ready")
	keep(t, s.producer)

	schedules, cancels := make([]*message.Message, canceled+1), make([]*message.Message, canceled)
	now := time.Now()
	for i := range schedules {
		key := timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(fmt.Sprint("call-", i))}
		c := timer.ScheduleTimer{Key: key, Version: timer.Version{TimestampMS: now.UnixMilli(), CommandID: uuid.NewString()}, DueAt: now.Add(time.Hour)}
		schedules[i] = message.NewMessage(c.CommandID, envelope.Schedule(c))
		if i < canceled {
			c := timer.CancelTimer{Key: key, Version: timer.Version{TimestampMS: now.UnixMilli() + 1, CommandID: uuid.NewString()}}
			cancels[i] = message.NewMessage(c.CommandID, envelope.Cancel(c))
		}
	}
	count := func(state string) (n int) {
		if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM timer_schedules WHERE state = '`+state+`'`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	s.publish(t, schedules...)
	until(t, "timers", func() bool { return count("Scheduled") == len(schedules) })

	if away == "service" {
		r.stops()
	} else {
		harmed.Refuse()
		harmed.Reset()
	}
	s.publish(t, cancels...)
	if _, err := db.ExecContext(t.Context(), makeDue); err != nil {
		t.Fatal(err)
	}
	if away == "service" {
		r = run(t, cfg)
		r.line("ready")
	} else {
		<-time.After(time.Second) // some polls
		if n := count("Reached"); n > 0 {
			t.Errorf("%d timers fired meanwhile", n)
		}
		harmed.Pass()
	}
	until(t, "the one that was not canceled", func() bool { return count("Scheduled") == 0 })
	if n := count("Reached"); n != 1 {
		t.Errorf("%d timers fired, want 1: the others were canceled", n)
	}
	r.stops()
}
