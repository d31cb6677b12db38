package rabbitmq_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/brokertest"
	"github.com/event-service-agent/timer-service/broker/rabbitmq"
	"github.com/event-service-agent/timer-service/internal/longtest"
)

// deprecated are the features that RabbitMQ 4 permits by default and its successors do not.
var deprecated = []string{"amqp_address_v1", "global_qos", "queue_master_locator", "ram_node_type", "transient_nonexcl_queues"}

// A store is where a server keeps its exchanges, queues and bindings.
type store string

const (
	mnesia store = "mnesia"
	khepri store = "khepri" // from RabbitMQ 4.0, where an operator asks for it
)

// serveOn starts a server with a store.
func serveOn(t testing.TB, in store, settings ...string) *own {
	t.Helper()
	if in == khepri {
		needs4(t)
	}
	o := serve(t, settings...)
	if in == khepri {
		o.ctl("enable_feature_flag", "--opt-in", "khepri_db")
	}
	return o
}

// needs4 skips a test unless RabbitMQ 4 is installed here.
func needs4(t testing.TB) {
	t.Helper()
	longtest.Skip(t, "starts a RabbitMQ server")
	if found, err := filepath.Glob("/usr/lib/rabbitmq/lib/rabbitmq_server-4*"); len(found) == 0 || err != nil {
		t.Skip("SKIPPED: RabbitMQ 4 is not installed; the step rabbitmq of .ci/nightly fetches it")
	}
}

func TestContractWithoutDeprecatedFeatures(t *testing.T) {
	t.Parallel()
	for _, in := range []store{mnesia, khepri} {
		t.Run(string(in), func(t *testing.T) {
			t.Parallel()
			var settings []string
			for _, feature := range deprecated {
				settings = append(settings, "deprecated_features.permit."+feature+" = false")
			}
			needs4(t)
			o := serveOn(t, in, settings...)
			brokertest.Run(t, features, func(t testing.TB) brokertest.Server { return contractOf(openAt(t, o.URL())) })
		})
	}
}

// From RabbitMQ 4.0 on a message has at most 16 MiB by default. Then the largest command
// comes, and comes again.
func TestLargestCommandOfTheServerIsDelivered(t *testing.T) {
	t.Parallel()
	longtest.NotShort(t)
	r := open(t)
	commands := subscribe(t, r.ready(r.opt), "timer-service", r.opt.Routing.Commands)
	r.send(amqp.Publishing{Body: make([]byte, 16<<20)})
	for range 2 {
		msg := next(t, commands)
		if len(msg.Payload) != 16<<20 {
			t.Errorf("a command of %d bytes", len(msg.Payload))
		}
		msg.Nack()
	}
	next(t, commands).Ack()
}

// From RabbitMQ 4.0 on quorum queues drop a message after 20 deliveries by default.
func TestQuorumQueueRedeliversForEver(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.opt.QueueType = rabbitmq.Quorum
	publish(t, r.ready(r.opt), r.opt.Routing.Commands, "command")
	for i := range 50 {
		var msg amqp.Delivery
		until(t, "the message", func() (ok bool) {
			var err error
			msg, ok, err = r.raw.Get(r.opt.Routing.Commands, false)
			must(t, err)
			return ok
		})
		if err := msg.Nack(false, true); err != nil {
			t.Fatalf("delivery %d: %v", i, err)
		}
	}
}

// An operator has lowered the limit of the server.
func TestMessageThatTheServerFindsTooLargeIsRefusedAndFailsNoOther(t *testing.T) {
	t.Parallel()
	o := serve(t, "max_message_size = 65536")
	r := o.rabbit()
	b := r.ready(r.opt)
	large := broker.Message{Topic: r.failing(), Message: text(strings.Repeat("x", 65537))}
	if err := b.Publisher().Publish(t.Context(), large)[0]; err == nil {
		t.Fatal("the server took it")
	}
	all := append(r.events(), large)
	for range 3 {
		for i, err := range b.Publisher().Publish(t.Context(), all...) {
			if tooLarge := all[i].Message == large.Message; tooLarge && !errors.Is(err, broker.ErrRefused) || !tooLarge && err != nil {
				t.Errorf("a message of %d bytes: %v", len(all[i].Payload), err)
			}
		}
	}
}

// cluster starts three servers that are one cluster.
func cluster(t testing.TB, in store) (nodes []*own) {
	t.Helper()
	first := serveOn(t, in)
	nodes = append(nodes, first)
	cookie, err := os.ReadFile(first.dir + "/.erlang.cookie")
	must(t, err)
	for range 2 {
		o := &own{TB: t, dir: t.TempDir(), port: freePort(t)}
		must(t, os.WriteFile(o.dir+"/.erlang.cookie", cookie, 0o400))
		o.start()
		t.Cleanup(func() { o.Kill() })
		o.ctl("stop_app")
		o.ctl("join_cluster", first.node())
		o.ctl("start_app")
		nodes = append(nodes, o)
	}
	return nodes
}

// A rolling restart is as RabbitMQ's manual says: the next server stops when no quorum queue
// would lose its majority by that.
func TestRollingRestartOfAClusterLosesNothing(t *testing.T) {
	t.Parallel()
	for _, in := range []store{mnesia, khepri} {
		t.Run(string(in), func(t *testing.T) {
			t.Parallel()
			nodes := cluster(t, in)
			var urls []string
			for _, o := range nodes {
				urls = append(urls, o.URL())
			}
			r := nodes[0].rabbit()
			r.opt.URL, r.opt.QueueType = strings.Join(urls, ","), rabbitmq.Quorum
			b := r.ready(r.opt)
			commands := subscribe(t, b, "timer-service", "timer.commands")
			restarted, sent := make(chan struct{}), make(chan []broker.Message)
			go func() { sent <- r.load(b, restarted) }()
			received := drain(commands, sent)
			for _, o := range nodes {
				o.tool("rabbitmq-upgrade", "-t", "120", "await_online_quorum_plus_one")
				o.Stop()
				o.start()
			}
			close(restarted)
			var all []broker.Message
			select {
			case all = <-received:
			case <-time.After(2 * time.Minute):
				t.Fatal("commands are missing")
			}
			awaitReady(t, b)
			r, counts := nodes[0].rabbit(), make(map[string]int)
			for i := range 10 {
				r.take(r.opt.Routing.EventsOf(tenant(i)), counts)
			}
			for _, m := range all {
				if strings.HasSuffix(m.Topic, ".q") && string(m.Payload) == "first" {
					r.take(m.Topic, counts)
				}
				if strings.HasSuffix(m.Topic, ".q") && counts[m.Topic+" "+m.UUID] == 0 {
					t.Errorf("event %s of %s is lost", m.Payload, m.Topic)
				}
			}
			t.Logf("%d messages", len(all))
		})
	}
}

// drain acks commands until it has received all that were sent, and returns them.
func drain(commands <-chan *message.Message, sent <-chan []broker.Message) <-chan []broker.Message {
	received := make(chan []broker.Message, 1)
	go func() {
		var all []broker.Message
		ids := make(map[string]bool)
		complete := func() bool {
			return all != nil && !slices.ContainsFunc(all, func(m broker.Message) bool { return string(m.Payload) == "command" && !ids[m.UUID] })
		}
		for !complete() {
			select {
			case msg, ok := <-commands:
				if !ok {
					return
				}
				ids[msg.UUID] = true
				msg.Ack()
			case all = <-sent:
			}
		}
		received <- all
	}()
	return received
}

// load publishes commands, and events of known and new tenants, until stop is closed. It
// publishes each message until the server takes it, and returns all.
func (r *rabbit) load(b *rabbitmq.Broker, stop <-chan struct{}) (all []broker.Message) {
	pace := time.NewTicker(20 * time.Millisecond)
	defer pace.Stop()
	for n := 0; ; n++ {
		select {
		case <-stop:
			return all
		case <-r.Context().Done():
			return all
		case <-pace.C:
		}
		batch := []broker.Message{
			{Topic: r.opt.Routing.Commands, Message: text("command")},
			{Topic: r.opt.Routing.EventsOf(tenant(n % 10)), Message: text("event")},
		}
		if n%50 == 0 {
			batch = append(batch, broker.Message{Topic: r.opt.Routing.EventsOf(tenant(1000 + n)), Message: text("first")})
		}
		all = append(all, batch...)
		for len(batch) > 0 && r.Context().Err() == nil {
			var again []broker.Message
			for i, err := range b.Publisher().Publish(r.Context(), batch...) {
				if err != nil {
					again = append(again, batch[i])
				}
			}
			if batch = again; len(batch) > 0 {
				<-pace.C
			}
		}
	}
}
