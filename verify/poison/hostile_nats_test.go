package poison_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	broker "github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
	"github.com/event-service-agent/timer-service/verify/internal/harness"
)

// A natsAttack is a tenant that knows ids of the commands and events of the victim.
type natsAttack struct {
	*victim
	ids []string
}

// TestHostileTenantOnNATS has the credentials of the tenant acme, on a server with the accounts
// of the documentation, while the tenant globex schedules timers.
func TestHostileTenantOnNATS(t *testing.T) {
	w := &world{T: t}
	w.startDocumented("../../docs/brokers/accounts.conf")
	root, err := jetstream.New(w.connect("root", "root"))
	harness.Must(t, err)
	routing := broker.DefaultRouting()
	routing.Commands = "svc.{tenant}.timer"
	admin := broker.Options{
		URL: "nats://" + w.address, Security: broker.Security{Username: "admin", Password: "change-me-admin"}, Name: "timer-provision", Routing: routing,
	}
	_, err = broker.New(admin, slog.New(slog.DiscardHandler)).Provision(t.Context(), false)
	harness.Must(t, err)
	for _, tenant := range []string{attacker, victims} {
		_, err := root.CreateConsumer(t.Context(), stream, jetstream.ConsumerConfig{
			Durable: tenant + "-events", FilterSubject: "svc." + tenant + ".serviceCall", AckPolicy: jetstream.AckExplicitPolicy,
		})
		harness.Must(t, err)
	}
	a := &natsAttack{
		victim: newVictim(t, "TIMER_BROKER=nats", "TIMER_BROKER_URL="+w.url("service", "change-me-service"), "TIMER_PROVISION=verify", "TIMER_COMMANDS_TOPIC="+routing.Commands),
	}
	conn := w.connect(victims, "change-me-"+victims)
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(time.Minute))
	harness.Must(t, err)
	a.publish = func(body []byte) error {
		m, err := envelope.Decode(body)
		if err != nil {
			return err
		}
		c, _ := m.Payload.(timer.ScheduleTimer)
		a.learn(envelope.EventID(timer.DueTimeReached{Key: c.Key, CommandID: c.CommandID, DueAt: c.DueAt})) // long before it fires
		_, err = js.Publish(a.Context(), "timer.commands", body, jetstream.WithMsgID(c.CommandID))
		a.learn(c.CommandID) // an id that is known before is a command that is dropped: see nats.md
		return err
	}
	a.listen(conn)
	a.suffers(a.attacks(w.connect(attacker, "change-me-"+attacker))...)
}

// learn has the attacker know an id.
func (a *natsAttack) learn(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ids = append(a.ids, id)
}

// listen consumes the events of the victim, by its durable consumer, and its dead letters, of which
// there are none.
func (a *natsAttack) listen(conn *nats.Conn) {
	a.Helper()
	_, err := conn.Subscribe("svc.globex.dlq", func(m *nats.Msg) { a.got(m.Data) })
	harness.Must(a, err)
	js, err := jetstream.NewWithDomain(conn, "timers", jetstream.WithDefaultTimeout(time.Minute))
	harness.Must(a, err)
	c, err := js.Consumer(a.Context(), stream, "globex-events")
	harness.Must(a, err)
	consuming, err := c.Consume(func(m jetstream.Msg) {
		a.got(m.Data())
		_ = m.Ack()
	})
	harness.Must(a, err)
	a.Cleanup(func() {
		consuming.Stop()
		<-consuming.Closed()
	})
}

// startDocumented starts a server with a file of the documentation, word for word except a
// second tenant, like the first, and the user root, who may do everything.
func (w *world) startDocumented(path string) {
	w.Helper()
	text, err := os.ReadFile(path)
	harness.Must(w, err)
	conf := strings.Replace(string(text), "users: [", "users: [{ user: root, password: root }", 1)
	second := strings.NewReplacer("acme", "globex", "ACME", "GLOBEX")
	conf = regexp.MustCompile(`(?m)^ *\{.*accounts: \[ACME\] \}\n`).ReplaceAllStringFunc(conf, func(line string) string { return line + second.Replace(line) })
	conf = regexp.MustCompile(`(?ms)^  ACME \{\n.*?^  \}\n`).ReplaceAllStringFunc(conf, func(account string) string { return account + second.Replace(account) })
	file := filepath.Join(w.TempDir(), "nats.conf")
	harness.Must(w, os.WriteFile(file, []byte(conf), 0o600))
	opt, err := natsserver.ProcessConfigFile(file)
	harness.Must(w, err)
	opt.Host, opt.Port, opt.NoSigs, opt.NoLog = "127.0.0.1", natsserver.RANDOM_PORT, true, true
	opt.JetStream, opt.StoreDir, opt.JetStreamMaxStore = true, w.TempDir(), 1<<40
	w.start(opt)
}

func (w *world) connect(user, password string) *nats.Conn {
	w.Helper()
	nc, err := nats.Connect(w.url(user, password), nats.MaxReconnects(-1), nats.Timeout(time.Minute), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	harness.Must(w, err)
	w.Cleanup(nc.Close)
	return nc
}

// ofVictim finds a timer of the victim; what the attacker makes up has other names.
var ofVictim = regexp.MustCompile(`"call-\d`)

// attacks returns what a tenant does with its connection, until a context is done.
func (a *natsAttack) attacks(conn *nats.Conn) []func(context.Context) {
	a.Helper()
	_, err := conn.Subscribe(">", func(m *nats.Msg) {
		if ofVictim.Match(m.Data) {
			a.hears(fmt.Sprintf("%s: %s", m.Subject, m.Data))
		}
	})
	harness.Must(a, err)
	const durable = "timer-service_svc-any-timer-5c46daa3"
	others := []string{
		"svc-owner." + durable, "svc-owner.x", "svc.globex.serviceCall", "svc.globex.dlq", "svc.globex.receipts", "svc.globex.timer",
		"svc.acme.serviceCall", "svc.acme.dlq", "timer.commands", "_INBOX_timer-service.x", "$JS.ACK.svc." + durable + ".1.1.1.1.0",
	}
	requests := []string{
		"$JS.API.STREAM.PURGE.svc", "$JS.API.STREAM.DELETE.svc", "$JS.API.STREAM.MSG.GET.svc", "$JS.API.DIRECT.GET.svc.svc.globex.serviceCall", "$JS.API.CONSUMER.DELETE.svc." + durable,
		"$JS.API.CONSUMER.CREATE.svc.spy-%d.svc.globex.serviceCall", "$JS.API.CONSUMER.DURABLE.CREATE.svc.spy-%d", "$JS.API.CONSUMER.MSG.NEXT.svc.globex-events", "$JS.API.CONSUMER.MSG.NEXT.svc." + durable,
		"$JS.timers.API.CONSUMER.CREATE.svc.spy-%d.svc.>", "$JS.timers.API.CONSUMER.MSG.NEXT.svc.globex-events", "$JS.timers.API.STREAM.PURGE.svc",
		"$JS.ACK.svc." + durable + ".1.%d.1.1.0", "$JS.ACK.svc.globex-events.1.%d.1.1.0",
	}
	forged := func(n int) []byte { return forgeries()[n%4] }
	every := func(pause time.Duration, burst int, do func(n int) error) func(context.Context) {
		return func(ctx context.Context) {
			tick := time.NewTicker(pause)
			defer tick.Stop()
			for n := 0; ctx.Err() == nil; {
				for range burst {
					if err := do(n); err != nil {
						a.Error(err)
						return
					}
					n++
				}
				<-tick.C
			}
		}
	}
	return []func(context.Context){
		// answers on subjects of others, of the stream and of its own consumer
		every(50*time.Millisecond, 20, func(n int) error { return conn.PublishRequest("timer.commands", others[n%len(others)], forged(n)) }),
		every(50*time.Millisecond, 5, func(n int) error {
			return conn.PublishRequest("$JS.timers.API.CONSUMER.MSG.NEXT.svc.acme-events", others[n%len(others)], []byte(`{"batch":10,"expires":1000000000}`))
		}),
		every(50*time.Millisecond, 1, func(n int) error { // of which its consumer reads events
			return conn.Publish("timer.commands", envelope.Schedule(timer.ScheduleTimer{
				Key: timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(fmt.Sprint("own-", n))}, Version: timer.Version{TimestampMS: time.Now().UnixMilli(), CommandID: uuid.NewString()}, DueAt: time.Now(),
			}))
		}),
		// floods of invalid commands
		every(50*time.Millisecond, 50, func(int) error { return conn.Publish("timer.commands", []byte(`{"type":"CancelTimer"}`)) }),
		every(500*time.Millisecond, 5, func(int) error { return conn.Publish("timer.commands", make([]byte, 60_000)) }),
		// ids of the victim's commands, and of its events to come
		every(20*time.Millisecond, 5, func(n int) error {
			a.mu.Lock()
			defer a.mu.Unlock()
			if len(a.ids) == 0 {
				return nil
			}
			return conn.PublishMsg(&nats.Msg{Subject: "timer.commands", Header: nats.Header{"Nats-Msg-Id": {a.ids[max(0, len(a.ids)-1-n%5)]}}, Data: []byte("{}")})
		}),
		// what it may not ask for
		every(50*time.Millisecond, 10, func(n int) error {
			subject := requests[n%len(requests)]
			if strings.Contains(subject, "%d") {
				subject = fmt.Sprintf(subject, n)
			}
			return conn.PublishRequest(subject, conn.NewRespInbox(), []byte(`{"stream_name":"svc","config":{"filter_subject":"svc.globex.serviceCall","ack_policy":"explicit"},"seq":1}`))
		}),
		// events and dead letters of its own making
		every(50*time.Millisecond, 10, func(n int) error {
			return conn.PublishMsg(&nats.Msg{Subject: others[n%len(others)], Header: nats.Header{"type": {[]string{"DueTimeReached", "DeadLetter", "Mark"}[n%3]}, "tenantId": {"globex"}}, Data: forged(n)})
		}),
	}
}
