package kafka_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/brokertest"
	"github.com/event-service-agent/timer-service/broker/kafka"
	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/timer"
)

func TestMain(m *testing.M) { os.Exit(longtest.Waiting(m)) }

var quiet = slog.New(slog.DiscardHandler)

var features = brokertest.Features{Durable: true, Replays: true, Positions: true, Wildcards: true, AllTenants: true, FakeTime: true, Uncounted: true, History: true, Commits: true, MaxBytes: 2 << 20}

// routing gives every tenant topics of its own, so that tests have theirs.
func routing() broker.Routing {
	prefix := strings.ReplaceAll(uuid.NewString(), "-", "")[:8]
	return broker.Routing{
		Commands:    prefix + ".commands",
		Events:      prefix + ".{tenant}.events",
		DeadLetters: prefix + ".{tenant}.dlq",
		Wildcard:    "*",
	}
}

// A cluster is Kafka in this process, on ports and a directory that stay; without one it is
// the server of the environment.
type cluster struct {
	*kfake.Cluster
	t       testing.TB
	opts    []kfake.Opt
	connect []kgo.Opt // how to connect with it
}

// fake starts a cluster in this process, which can be stopped, and started again where it was.
func fake(t testing.TB, opts ...kfake.Opt) *cluster {
	t.Helper()
	c := &cluster{t: t, opts: append([]kfake.Opt{kfake.NumBrokers(1), kfake.DataDir(t.TempDir())}, opts...)}
	c.start()
	var ports []int
	for _, address := range c.ListenAddrs() {
		_, port, err := net.SplitHostPort(address)
		must(t, err)
		var n int
		fmt.Sscan(port, &n)
		ports = append(ports, n)
	}
	c.opts = append(c.opts, kfake.Ports(ports...))
	t.Cleanup(c.stop)
	return c
}

func (c *cluster) start() {
	c.t.Helper()
	var err error
	c.Cluster, err = kfake.NewCluster(c.opts...)
	must(c.t, err)
}

func (c *cluster) stop() {
	if c.Cluster != nil {
		c.Cluster.Close()
	}
	c.Cluster = nil
}

func (c *cluster) url() string {
	if c.Cluster == nil {
		return server
	}
	return strings.Join(c.ListenAddrs(), ",")
}

// virtual starts a cluster on a network in memory, which works on fake time too.
func virtual(t testing.TB, opts ...kfake.Opt) *cluster {
	network := new(kfake.VirtualNetwork)
	c := fake(t, append([]kfake.Opt{kfake.ListenFn(network.Listen), kfake.Ports(9092)}, opts...)...)
	c.connect = []kgo.Opt{kgo.Dialer(network.DialContext)}
	return c
}

// bubble runs a test on fake time, with a cluster in the same process whose commands topic
// has twelve partitions.
func bubble(t *testing.T, test func(t *testing.T, c *cluster, opt kafka.Options)) {
	synctest.Test(t, func(t *testing.T) {
		c := virtual(t)
		must(t, c.CreateTopic(kafka.DefaultRouting().Commands, partitions, map[string]string{"message.timestamp.type": "LogAppendTime"}))
		test(t, c, kafka.Options{URL: c.url(), Connect: c.connect})
	})
}

// options returns the options of a broker of the cluster, with topics that no other has.
func (c *cluster) options() kafka.Options {
	return kafka.Options{URL: c.url(), Routing: routing(), Connect: c.connect}
}

func open(t testing.TB) brokertest.Server { return virtual(t).server() }

// server returns the cluster as the suite asks for.
func (c *cluster) server() brokertest.Server {
	opt := c.options()
	s := brokertest.Server{
		Broker: func() broker.Broker { return kafka.New(opt, quiet) },
		Purge: func(log string, below int64) {
			topic, number := logOf(log)
			if err := c.DeleteRecords(topic, number, below-1); err != nil {
				c.t.Error(err)
			}
		},
	}
	if c.Cluster != nil {
		s.Stop, s.Start = c.stop, c.start
		s.Fail = func(topic string) (restore func()) {
			return c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: kerr.NotEnoughReplicas, Count: -1}).Remove
		}
	} else {
		opt.Partitions = 3 // each takes Kafka some milliseconds to make
	}
	return s
}

// logOf returns the partition that a log is of.
func logOf(log string) (topic string, number int32) {
	name, _, _ := strings.Cut(log, "@")
	topic, text, _ := strings.Cut(name, "/")
	n, _ := strconv.Atoi(text)
	return topic, int32(n)
}

func TestContract(t *testing.T) { brokertest.Run(t, features, open) }

func TestWatermill(t *testing.T) {
	longtest.NotShort(t)
	brokertest.Watermill(t, features, open)
}

func BenchmarkBroker(b *testing.B) {
	brokertest.Bench(b, features, func(t testing.TB) brokertest.Server { return fake(t).server() })
}

var (
	must          = brokertest.Must
	until         = brokertest.Await
	awaitReady    = brokertest.AwaitReady
	awaitNotReady = brokertest.AwaitNotReady
	publish       = brokertest.Publish
	expect        = brokertest.Expect
)

// run runs a broker until the test ends, or until stop is called.
func run(t testing.TB, opt kafka.Options) (b *kafka.Broker, stop func()) {
	t.Helper()
	b = kafka.New(opt, quiet)
	return b, brokertest.Start(t, b)
}

// start runs a broker like run, and waits until it is ready.
func start(t testing.TB, opt kafka.Options) (b *kafka.Broker, stop func()) {
	t.Helper()
	b, stop = run(t, opt)
	awaitReady(t, b)
	return b, stop
}

// ready runs a broker until the test ends, and waits until it is ready.
func ready(t testing.TB, opt kafka.Options) *kafka.Broker {
	t.Helper()
	b, _ := start(t, opt)
	return b
}

// publishes publishes a message, and returns its result.
func publishes(b *kafka.Broker, topic, body string) error {
	return b.Publisher().Publish(context.Background(), broker.Message{Topic: topic, Message: message.NewMessage(uuid.NewString(), []byte(body))})[0]
}

// letters visits the dead letters of a tenant, and returns their bodies. It removes those of
// which remove returns true.
func letters(t testing.TB, b *kafka.Broker, tenant timer.TenantID, remove func(body string) bool) (bodies []string) {
	t.Helper()
	must(t, b.VisitDeadLetters(t.Context(), tenant, "", broker.EachDeadLetter(t.Context(), func(m *message.Message) (bool, error) {
		bodies = append(bodies, string(m.Payload))
		return remove(string(m.Payload)), nil
	})))
	return bodies
}

// only returns a function that tells one body from others.
func only(body string) func(string) bool { return func(s string) bool { return s == body } }

// mine is an owner of commands.
var mine = broker.Owner{Database: "mine", Broker: "here", Name: "sqlite mine.db"}

// owns fails the test unless mine owns the commands after a claim of it.
func owns(t testing.TB, b *kafka.Broker) {
	t.Helper()
	if got, err := b.Claim(t.Context(), "timer-service", mine, false); err != nil || got != mine {
		t.Errorf("the owner is %v, %v", got, err)
	}
}

// subscribe subscribes the role "reader" until the test ends.
func subscribe(t testing.TB, b *kafka.Broker, topic string) (<-chan *message.Message, message.Subscriber) {
	t.Helper()
	return brokertest.Subscribe(t, b, "reader", topic)
}
