package service_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/internal/apiclient"
	"github.com/event-service-agent/timer-service/service"
)

// documented starts a NATS server with the permissions of the documentation, without some of
// its lines.
func documented(t *testing.T, without ...string) (url string) {
	t.Helper()
	conf, err := os.ReadFile("../docs/brokers/accounts-simple.conf")
	must(t, err)
	text := string(conf)
	for _, lines := range without {
		if !strings.Contains(text, lines) {
			t.Fatalf("the documentation does not permit %s", lines)
		}
		text = strings.Replace(text, lines, "", 1)
	}
	file := filepath.Join(t.TempDir(), "nats.conf")
	must(t, os.WriteFile(file, []byte(text), 0o600))
	opt, err := server.ProcessConfigFile(file)
	must(t, err)
	opt.Host, opt.Port, opt.NoSigs, opt.NoLog, opt.JetStream, opt.StoreDir = "127.0.0.1", server.RANDOM_PORT, true, true, true, t.TempDir()
	s, err := server.NewServer(opt)
	must(t, err)
	s.Start()
	t.Cleanup(s.WaitForShutdown)
	t.Cleanup(s.Shutdown)
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("no answer of the server")
	}
	return s.ClientURL()
}

// TestOptionalPermissionsAreDeniedByName leaves out each of the permissions that the page
// calls optional. The API refuses a request that needs it, and names the subject; all others
// work, and doctor finds nothing wrong.
func TestOptionalPermissionsAreDeniedByName(t *testing.T) {
	t.Parallel()
	const spaces = "\n              "
	for _, test := range []struct{ name, without, denied string }{
		{"", "", ""},
		{"schedule", spaces + `"timer.commands"` + spaces, "timer.commands"},
		{"discard", `"$JS.API.STREAM.MSG.DELETE.svc"`, "$JS.API.STREAM.MSG.DELETE.svc"},
		{"tail", spaces + `"timer.commands"` + spaces + `"svc.*.serviceCall"` + spaces + `"svc.*.dlq"` + spaces + `"svc.*.receipts"`, "svc.*.dlq"},
	} {
		t.Run("without "+test.name, func(t *testing.T) {
			t.Parallel()
			url := documented(t, test.without)
			as := func(user string, more ...string) config.Config {
				return load(t, append([]string{
					"TIMER_BROKER_URL=" + url, "TIMER_BROKER_USERNAME=" + user, "TIMER_BROKER_PASSWORD=change-me-" + user, "TIMER_PROVISION=verify",
				}, more...)...)
			}
			if _, err := service.Provision(t.Context(), as("admin"), false, quiet); err != nil {
				t.Fatal(err)
			}
			cfg := as("service", "TIMER_HTTP_ADDR=127.0.0.1:0")
			r := run(t, cfg)
			address, _, _ := strings.Cut(r.line("http"), ",")
			c := apiclient.New(address, "")
			r.line("ready")
			tenant := connected(t, as("acme", "TIMER_NATS_INBOX=_INBOX_acme"))
			deadLetters := tails(t, tenant, "svc.acme.dlq")
			body := `{"id":"c-1","type":"CancelTimer","tenantId":"acme","timestampMs":1,"payload":{"tenantId":"acme","serviceCallId":"order-1"}}`
			must(t, broker.NewWatermillPublisher(tenant.Publisher()).Publish("timer.commands", message.NewMessage("c-1", []byte(body))))
			<-deadLetters
			var page admin.DeadLetters
			for len(page.DeadLetters) == 0 { // the server stores it a moment after it has sent it to subscribers
				var err error
				if page, err = apiclient.Get[admin.DeadLetters](t.Context(), c, apiclient.Path("dead-letters")+apiclient.Query("tenant", "acme")); err != nil {
					t.Fatal(err)
				}
			}
			for name, do := range map[string]func() error{
				"schedule": func() error {
					_, err := c.Send(t.Context(), http.MethodPut, apiclient.Path("tenants", "acme", "timers", "order-2"), []byte(`{"in":"1h"}`))
					return err
				},
				"discard": func() error {
					_, err := c.Send(t.Context(), http.MethodPost, apiclient.Path("dead-letters:discard")+apiclient.Query("tenant", "acme", "id", page.DeadLetters[0].ID), nil)
					return err
				},
				"tail": func() error {
					lines, err := c.Stream(t.Context(), apiclient.Path("messages", "deadletters"))
					if err == nil {
						err = lines.Close()
					}
					return err
				},
			} {
				switch err := do(); {
				case name != test.name && err != nil:
					t.Errorf("%s: %v", name, err)
				case name == test.name && (!errors.Is(err, apiclient.ErrDenied) || !strings.Contains(err.Error(), `"`+test.denied+`"`)):
					t.Errorf("%s: %v, want that %s is denied", name, err, test.denied)
				}
			}
			for _, check := range examine(t, cfg) {
				if check.Red && check.Part != "http" { // its port is any
					t.Errorf("doctor: %+v", check)
				}
			}
			r.stops()
		})
	}
}

// connected runs a client until the test ends.
func connected(t *testing.T, cfg config.Config) broker.Broker {
	t.Helper()
	b, _, err := service.Client(cfg, quiet)
	must(t, err)
	keep(t, b)
	return b
}

// keep runs a broker until the test ends.
func keep(t *testing.T, b broker.Broker) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	until(t, "a broker that is ready", func() bool { return b.Ready(ctx) == nil })
}

// tails subscribes to messages from now on.
func tails(t *testing.T, b broker.Broker, topic string) <-chan *message.Message {
	t.Helper()
	in, err := b.Tail().Subscribe(t.Context(), topic)
	must(t, err)
	return in
}
