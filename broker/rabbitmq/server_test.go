package rabbitmq_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/rabbitmq"
	"github.com/event-service-agent/timer-service/internal/freeport"
	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/internal/rabbitd"
)

// An own is a server of one test, which may harm it.
type own struct {
	testing.TB
	*rabbitd.Server
	dir      string
	port     int
	settings []string // lines of its configuration
}

// serve starts a server for the test.
func serve(t testing.TB, settings ...string) *own {
	t.Helper()
	longtest.Skip(t, "starts a RabbitMQ server")
	o := &own{TB: t, dir: t.TempDir(), port: freePort(t), settings: settings}
	o.start()
	t.Cleanup(func() { o.Kill() })
	return o
}

func freePort(t testing.TB) int {
	t.Helper()
	port, err := freeport.Find(context.Background())
	must(t, err)
	return port
}

func (o *own) start() {
	o.Helper()
	s, err := rabbitd.Start(context.Background(), o.dir, o.port, o.settings...)
	if errors.Is(err, rabbitd.ErrNotInstalled) && os.Getenv("TIMER_TEST_REQUIRE") == "" {
		o.Skip("SKIPPED: ", err)
	}
	must(o, err)
	o.Server = s
}

// ctl runs rabbitmqctl, and returns its output.
func (o *own) ctl(args ...string) string {
	o.Helper()
	return o.tool("rabbitmqctl", args...)
}

// tool runs one of RabbitMQ's programs for operators.
func (o *own) tool(name string, args ...string) string {
	o.Helper()
	out, err := o.Tool(context.WithoutCancel(o.Context()), name, args...) // also in a cleanup
	must(o, err)
	return out
}

// node is the name of the server in a cluster.
func (o *own) node() string { return fmt.Sprintf("timer-%d@localhost", o.port) }

// rabbit returns the server as a rabbit. Nothing has to be removed from it.
func (o *own) rabbit() *rabbit {
	o.Helper()
	conn, err := amqp.Dial(o.URL())
	must(o, err)
	o.Cleanup(func() { conn.Close() })
	r := &rabbit{TB: o, opt: rabbitmq.Options{URL: o.URL(), Routing: rabbitmq.DefaultRouting()}, declared: make(map[string]bool)}
	r.raw, err = conn.Channel()
	must(o, err)
	return r
}

func TestServerThatIsLowOnMemoryOrDiskIsReported(t *testing.T) {
	t.Parallel()
	for resource, limits := range map[string]struct{ command, low, normal string }{
		"memory": {"set_vm_memory_high_watermark", "0.00000001", "0.4"},
		"disk":   {"set_disk_free_limit", "100000GB", "50MB"},
	} {
		t.Run(resource, func(t *testing.T) {
			t.Parallel()
			o := serve(t)
			o.reportsAlarm(t, resource, func() { o.ctl(limits.command, limits.low) }, func() { o.ctl(limits.command, limits.normal) })
		})
	}
}

// reportsAlarm fails unless brokers report that the server is low on a resource, and recover.
func (o *own) reportsAlarm(t *testing.T, resource string, begin, end func()) {
	t.Helper()
	r := o.rabbit()
	b, idle := r.ready(r.opt), r.ready(r.opt)
	messages := subscribe(t, b, "timer-service", "timer.commands")
	publish(t, b, "timer.commands", "before")
	held := next(t, messages)
	begin()
	began := time.Now()
	err := publishes(b, "timer.commands", "during")
	if took := time.Since(began); !errors.Is(err, rabbitmq.ErrBlocked) || !errors.Is(err, broker.ErrUnavailable) || took > 30*time.Second {
		t.Errorf("the first message meanwhile: %v after %v, want ErrBlocked within 30 s", err, took)
	}
	if err := b.Ready(t.Context()); !errors.Is(err, rabbitmq.ErrBlocked) || !strings.Contains(err.Error(), resource) {
		t.Errorf("Ready: %v, want ErrBlocked with the reason %s", err, resource)
	}
	if err := publishes(b, "timer.commands", "during too"); !errors.Is(err, rabbitmq.ErrBlocked) {
		t.Errorf("the next message: %v, want ErrBlocked", err)
	}
	// The server says nothing of an alarm to a connection that publishes nothing.
	late, _ := r.run(r.opt)
	for _, b := range []*rabbitmq.Broker{idle, late} {
		until(t, "a broker that is blocked and publishes nothing", func() bool { return errors.Is(b.Ready(t.Context()), rabbitmq.ErrBlocked) })
	}
	held.Ack() // which does not depend on it
	end()
	for _, b := range []*rabbitmq.Broker{b, idle, late} {
		awaitReady(t, b)
	}
	publish(t, b, "timer.commands", "after")
	for {
		msg := next(t, messages)
		msg.Ack()
		if string(msg.Payload) == "after" {
			return
		}
		if string(msg.Payload) != "during" {
			t.Fatalf("got %q", msg.Payload)
		}
	}
}

func TestMessageThatIsHandledForTooLongComesAgain(t *testing.T) {
	t.Parallel()
	o := serve(t)
	r := o.rabbit()
	o.ctl("eval", "application:set_env(rabbit, consumer_timeout, 1000), application:set_env(rabbit, channel_tick_interval, 1000).")
	b := r.ready(r.opt)
	messages := subscribe(t, b, "timer-service", "timer.commands")
	publish(t, b, "timer.commands", "slow")
	slow := next(t, messages)
	again := next(t, messages)
	if string(again.Payload) != "slow" || again.Metadata.Get(broker.MetaDelivery) != "2" {
		t.Errorf("got %q, delivery %s", again.Payload, again.Metadata.Get(broker.MetaDelivery))
	}
	slow.Ack() // too late
	again.Ack()
	publish(t, b, "timer.commands", "next")
	for {
		msg := next(t, messages)
		msg.Ack()
		if string(msg.Payload) == "next" {
			return
		}
	}
}
