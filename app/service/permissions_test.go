package service_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/event-service-agent/timer-service/app/service"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/config"
)

// documented starts a NATS server with the permissions of the documentation.
func documented(t *testing.T) (url string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/brokers/nats.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```conf\n(.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatal("the documentation has no configuration")
	}
	file := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(file, block[1], 0o600); err != nil {
		t.Fatal(err)
	}
	opt, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	opt.Host, opt.Port, opt.NoSigs, opt.NoLog, opt.JetStream, opt.StoreDir = "127.0.0.1", server.RANDOM_PORT, true, true, true, t.TempDir()
	s, err := server.NewServer(opt)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(s.WaitForShutdown)
	t.Cleanup(s.Shutdown)
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("no answer of the server")
	}
	return s.ClientURL()
}

// TestServiceWithNoMorePermissionsThanDocumented has an administrator provision,
// the service fire a timer of a tenant and dead-letter what is invalid, and an operator
// remove the dead letter.
func TestServiceWithNoMorePermissionsThanDocumented(t *testing.T) {
	t.Parallel()
	url := documented(t)
	as := func(user string, more ...string) config.Config {
		return load(t, append([]string{
			"TIMER_BROKER_URL=" + url, "TIMER_BROKER_USERNAME=" + user, "TIMER_BROKER_PASSWORD=change-me-" + user, "TIMER_PROVISION=verify",
		}, more...)...)
	}
	if changes, err := service.Provision(t.Context(), as("admin"), false, quiet); err != nil || len(changes) != 3 {
		t.Fatalf("Provision: %v, %v", changes, err)
	}
	r := run(t, as("service", "TIMER_RECEIPTS=true"))
	r.line("ready")
	tenant := connected(t, as("acme", "TIMER_NATS_INBOX=_INBOX_acme"))
	events, deadLetters, receipts := tails(t, tenant, "svc.acme.serviceCall"), tails(t, tenant, "svc.acme.dlq"), tails(t, tenant, "svc.acme.receipts")

	command := func(id, due string) *message.Message {
		return message.NewMessage(id, fmt.Appendf(nil, `{"id":%q,"type":"ScheduleTimer","tenantId":"acme","timestampMs":1767225600000,`+
			`"payload":{"tenantId":"acme","serviceCallId":"order-1","dueAt":%q}}`, id, due))
	}
	if err := broker.NewWatermillPublisher(tenant.Publisher()).Publish("timer.commands", command("c-1", "2026-01-01T00:00:03Z"), command("c-2", "soon")); err != nil {
		t.Fatal(err)
	}
	for what, in := range map[string]<-chan *message.Message{"event": events, "dead letter": deadLetters, "receipt": receipts} {
		select {
		case <-in:
		case <-time.After(time.Minute):
			t.Fatalf("no %s came", what)
		}
	}
	operator := connected(t, as("operator", "TIMER_NATS_INBOX=_INBOX_operator"))
	removed := 0
	if err := operator.(broker.DeadLetters).VisitDeadLetters(t.Context(), "acme", func(*message.Message) (bool, error) {
		removed++
		return true, nil
	}); err != nil || removed != 1 {
		t.Errorf("%d dead letters were removed: %v", removed, err)
	}
	if err := r.finish(); err != nil {
		t.Errorf("Run: %v", err)
	}
}

// connected runs a client until the test ends.
func connected(t *testing.T, cfg config.Config) broker.Broker {
	t.Helper()
	b, _, err := service.Client(cfg, quiet)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for err = b.Ready(ctx); err != nil; err = b.Ready(ctx) {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal(err)
		}
	}
	return b
}

// tails subscribes to what comes from now on.
func tails(t *testing.T, b broker.Broker, topic string) <-chan *message.Message {
	t.Helper()
	in, err := b.Tail().Subscribe(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	return in
}
