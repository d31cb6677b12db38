package service_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	natsgo "github.com/nats-io/nats.go"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/service"
)

// TestSecretOfTheEmbeddedServer has the owner at the embedded server, and looks at the files
// next to the data.
func TestSecretOfTheEmbeddedServer(t *testing.T) {
	t.Parallel()
	cfg := load(t)
	dir := strings.TrimSuffix(cfg.DBPath, ".db") + ".nats"
	secret := filepath.Join(dir, "secret")
	var last string
	for range 2 {
		r := run(t, cfg)
		r.line("ready")
		owner := connected(t, cfg)
		if err := owner.(broker.DeadLetters).VisitDeadLetters(t.Context(), "", "", broker.EachDeadLetter(t.Context(), func(*message.Message) (bool, error) { return false, nil })); err != nil {
			t.Errorf("the owner sees no dead letters: %v", err)
		}
		info, err := os.Stat(secret)
		if err != nil || info.Mode() != 0o600 {
			t.Fatalf("the secret: %v, %v", info, err)
		}
		text, err := os.ReadFile(secret)
		if err != nil || last != "" && string(text) != last || len(strings.TrimSpace(string(text))) < 20 {
			t.Fatalf("the secret is %q, it was %q (%v)", text, last, err)
		}
		last = string(text)
		r.stops()
	}

	if err := os.Chmod(secret, 0o644); err != nil { // others may have read it
		t.Fatal(err)
	}
	run(t, cfg).line("ready")
	if text, err := os.ReadFile(secret); err != nil || string(text) == last {
		t.Errorf("a secret that others could read is kept (%v)", err)
	}
}

func TestTokenOfTheEmbeddedServer(t *testing.T) {
	t.Parallel()
	cfg := load(t, "TIMER_NATS_TOKEN=hunter2")
	r := run(t, cfg)
	if says := r.line("broker"); strings.Contains(says, "hunter2") {
		t.Errorf("broker says %q", says)
	}
	address := r.line("ready")
	if _, err := natsgo.Connect(address, natsgo.Timeout(time.Minute)); !errors.Is(err, natsgo.ErrAuthorization) {
		t.Errorf("without the token: %v", err)
	}
	elsewhere := load(t, "TIMER_BROKER_URL="+address, "TIMER_NATS_TOKEN=hunter2")
	for i, cfg := range []config.Config{cfg, elsewhere} {
		b := connected(t, cfg)
		events := tails(t, b, "svc.acme.serviceCall")
		id := fmt.Sprint("c-", i)
		command := message.NewMessage(id, fmt.Appendf(nil, `{"id":%q,"type":"ScheduleTimer","tenantId":"acme","timestampMs":%d,`+
			`"payload":{"tenantId":"acme","serviceCallId":%q,"dueAt":"2026-01-01T00:00:03Z"}}`, id, time.Now().UnixMilli(), id))
		must(t, broker.NewWatermillPublisher(b.Publisher()).Publish("timer.commands", command))
		select {
		case <-events:
		case <-time.After(time.Minute):
			t.Fatal("no event came")
		}
	}
}

// taken listens on the default port, unless another server does already.
func taken(t *testing.T) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:4222")
	switch {
	case err == nil:
		t.Cleanup(func() { l.Close() })
	case !errors.Is(err, syscall.EADDRINUSE):
		t.Fatal(err)
	}
}

// TestDefaultPortThatIsTaken starts twice: the port that the service moves to at
// the first start is the one of the second.
func TestDefaultPortThatIsTaken(t *testing.T) {
	t.Parallel()
	taken(t)
	cfg := load(t, "TIMER_NATS_PORT=")
	r := run(t, cfg)
	if says := r.line("broker"); !strings.Contains(says, "port 4222 is taken") {
		t.Errorf("broker says %q", says)
	}
	first := r.line("ready")
	if _, found, err := service.Client(cfg, quiet); err != nil || found != first || strings.HasSuffix(first, ":4222") {
		t.Errorf("a client connects to %q, %v; the service is at %q", found, err, first)
	}
	r.stops()
	r = run(t, cfg)
	if says := r.line("broker"); !strings.Contains(says, "the default was taken once") {
		t.Errorf("broker says %q", says)
	}
	if second := r.line("ready"); second != first {
		t.Errorf("the second start is at %s, the first was at %s", second, first)
	}
}
