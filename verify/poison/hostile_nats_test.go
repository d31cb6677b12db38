package poison_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	broker "github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// marker is in the data of each timer of the victim. The hostile tenant must not read it.
const marker = "globex-secret"

// TestHostileTenantOnNATS has the credentials of the tenant acme, on a server with the accounts
// of the documentation, while the tenant globex schedules timers.
func TestHostileTenantOnNATS(t *testing.T) {
	w := &world{T: t}
	w.startDocumented("../../docs/brokers/accounts.conf")
	judge := w.connect("root", "root")
	w.js, _ = jetstream.New(judge)
	routing := broker.DefaultRouting()
	routing.Commands = "svc.{tenant}.timer"
	admin := broker.Options{
		URL: "nats://" + w.address, Security: broker.Security{Username: "admin", Password: "change-me-admin"}, Name: "timer-provision", Routing: routing,
	}
	if _, err := broker.New(admin, slog.New(slog.DiscardHandler)).Provision(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	for _, tenant := range []string{"acme", "globex"} {
		if _, err := w.js.CreateConsumer(t.Context(), stream, jetstream.ConsumerConfig{
			Durable: tenant + "-events", FilterSubject: "svc." + tenant + ".serviceCall", AckPolicy: jetstream.AckExplicitPolicy,
		}); err != nil {
			t.Fatal(err)
		}
	}
	v := &natsVictim{
		victim: newVictim(t, "TIMER_BROKER=nats", "TIMER_BROKER_URL="+w.url("service", "change-me-service"), "TIMER_PROVISION=verify", "TIMER_COMMANDS_TOPIC="+routing.Commands),
		conn:   w.connect(victims, "change-me-"+victims), at: make(map[string][]time.Time),
	}
	yardstick := w.measure()

	attacking, end := context.WithTimeout(t.Context(), *attackFlag)
	defer end()
	var working sync.WaitGroup
	working.Go(func() { v.watchHealth(attacking) })
	listening, hush := context.WithCancel(t.Context())
	defer hush()
	working.Go(func() { v.listen(listening) })
	attack := w.attackAs(attacker, v)
	for _, a := range attack {
		working.Go(func() { a(attacking) })
	}
	v.schedule(attacking)
	v.settle(time.Minute)
	hush()
	working.Wait()
	slow := yardstick.read()
	v.stop()
	v.judge(slow)
}

// startDocumented starts a server with a file of the documentation, word for word except a
// second tenant, like the first, and the user root, who may do everything.
func (w *world) startDocumented(path string) {
	w.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		w.Fatal(err)
	}
	conf := strings.Replace(string(text), "users: [", "users: [{ user: root, password: root }", 1)
	second := strings.NewReplacer("acme", "globex", "ACME", "GLOBEX")
	conf = regexp.MustCompile(`(?m)^ *\{.*accounts: \[ACME\] \}\n`).ReplaceAllStringFunc(conf, func(line string) string { return line + second.Replace(line) })
	conf = regexp.MustCompile(`(?ms)^  ACME \{\n.*?^  \}\n`).ReplaceAllStringFunc(conf, func(account string) string { return account + second.Replace(account) })
	file := filepath.Join(w.TempDir(), "nats.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		w.Fatal(err)
	}
	opt, err := natsserver.ProcessConfigFile(file)
	if err != nil {
		w.Fatal(err)
	}
	opt.Host, opt.Port, opt.NoSigs, opt.NoLog = "127.0.0.1", natsserver.RANDOM_PORT, true, true
	opt.JetStream, opt.StoreDir, opt.JetStreamMaxStore = true, w.TempDir(), 1<<40
	w.start(opt)
}

func (w *world) connect(user, password string) *nats.Conn {
	w.Helper()
	nc, err := nats.Connect(w.url(user, password), nats.MaxReconnects(-1), nats.Timeout(time.Minute), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(nc.Close)
	return nc
}

// A natsVictim notes when each of its events was stored, and knows the accounts of the server.
type natsVictim struct {
	*victim
	conn   *nats.Conn
	at     map[string][]time.Time // when events were stored, by call
	ids    []string               // of its commands and events, which the attacker knows
	forged []string
}

// schedule schedules timers until ctx is done: most at the broker, one in twenty over HTTP.
func (v *natsVictim) schedule(ctx context.Context) {
	js, err := jetstream.New(v.conn, jetstream.WithDefaultTimeout(time.Minute))
	if err != nil {
		v.Fatal(err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ctx.Err() == nil; n++ {
		<-tick.C
		c := timer.ScheduleTimer{
			Key:     timer.Key{TenantID: "globex", ServiceCallID: timer.ServiceCallID(fmt.Sprint("order-", n))},
			Version: timer.Version{TimestampMS: time.Now().UnixMilli(), CommandID: uuid.NewString()},
			DueAt:   timer.RoundUp(time.Now().Add(time.Duration(500+rand.IntN(2000)) * time.Millisecond)), Data: `"` + marker + `"`,
		}
		v.mu.Lock()
		v.due[string(c.ServiceCallID)] = c.DueAt
		v.ids = append(v.ids, envelope.EventID(timer.DueTimeReached{Key: c.Key, CommandID: c.CommandID, DueAt: c.DueAt})) // long before it fires
		v.mu.Unlock()
		if n%20 == 0 {
			v.put(c)
		} else if _, err := js.Publish(v.Context(), "timer.commands", envelope.Schedule(c), jetstream.WithMsgID(c.CommandID)); err != nil {
			v.Errorf("%s: %v", c.ServiceCallID, err)
		}
		v.mu.Lock()
		v.ids = append(v.ids, c.CommandID) // an id that is known before is a command that is dropped: see nats.md
		v.mu.Unlock()
	}
}

func (v *natsVictim) put(c timer.ScheduleTimer) {
	body := fmt.Sprintf(`{"dueAt":%q,"data":%s}`, envelope.FormatTime(c.DueAt), c.Data)
	request, err := http.NewRequestWithContext(v.Context(), http.MethodPut, "http://"+v.http+"/v1/tenants/globex/timers/"+string(c.ServiceCallID), strings.NewReader(body))
	if err != nil {
		v.Error(err)
		return
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		v.Error(err)
		return
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusAccepted {
		v.Errorf("PUT of %s: %s", c.ServiceCallID, answer.Status)
	}
}

// listen consumes the events of the victim, by its durable consumer, and its dead letters.
func (v *natsVictim) listen(ctx context.Context) {
	js, err := jetstream.NewWithDomain(v.conn, "timers", jetstream.WithDefaultTimeout(time.Minute))
	if err != nil {
		v.Error(err)
		return
	}
	c, err := js.Consumer(v.Context(), stream, "globex-events")
	if err != nil {
		v.Error(err)
		return
	}
	dead, err := v.conn.Subscribe("svc.globex.dlq", func(m *nats.Msg) { v.note(m.Subject, m.Data, time.Now()) })
	if err != nil {
		v.Error(err)
		return
	}
	defer func() { _ = dead.Unsubscribe() }()
	consuming, err := c.Consume(func(m jetstream.Msg) {
		at := time.Now()
		if meta, err := m.Metadata(); err == nil {
			at = meta.Timestamp
		}
		v.note(m.Subject(), m.Data(), at)
		_ = m.Ack()
	})
	if err != nil {
		v.Error(err)
		return
	}
	<-ctx.Done()
	consuming.Stop()
	<-consuming.Closed()
}

// note notes an event, and what is none.
func (v *natsVictim) note(subject string, body []byte, at time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	decoded, err := envelope.Decode(body)
	e, ok := decoded.Payload.(timer.DueTimeReached)
	if err != nil || !ok || e.TenantID != "globex" || e.Data != `"`+marker+`"` {
		v.forged = append(v.forged, fmt.Sprintf("%s: %.200s", subject, body))
		return
	}
	call := string(e.ServiceCallID)
	v.at[call] = append(v.at[call], at)
}

// settle waits until all timers have fired.
func (v *natsVictim) settle(limit time.Duration) {
	late := time.After(limit)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		v.mu.Lock()
		left := len(v.due) - len(v.at)
		v.mu.Unlock()
		select {
		case <-tick.C:
		case <-late:
			return
		}
		if left <= 0 {
			return
		}
	}
}

// judge compares what fired with what was scheduled.
func (v *natsVictim) judge(slow time.Duration) {
	var latest time.Duration
	for call, due := range v.due {
		switch at := v.at[call]; {
		case len(at) != 1:
			v.Errorf("%s fired %d times", call, len(at))
		case at[0].Before(due):
			v.Errorf("%s fired early", call)
		default:
			latest = max(latest, at[0].Sub(due))
		}
	}
	for call := range v.at {
		if v.due[call].IsZero() {
			v.Errorf("%s fired, which was not scheduled", call)
		}
	}
	for _, text := range v.forged {
		v.Errorf("forged: %s", text)
	}
	for _, text := range v.red {
		v.Errorf("not ready: %s", text)
	}
	if limit := maxLate + waits*max(0, slow-quick); latest > limit {
		v.Errorf("a timer was %v late, more than %v", latest, limit)
	}
	v.Logf("%d timers of the victim in %v, the latest one %v late; the yardstick took %v", len(v.due), *attackFlag, latest, slow)
}

// attackAs returns attacks of a tenant, with its credentials. Each goes on until its context is
// done.
func (w *world) attackAs(tenant string, v *natsVictim) []func(context.Context) {
	conn := w.connect(tenant, "change-me-"+tenant)
	_, err := conn.Subscribe(">", func(m *nats.Msg) {
		if strings.Contains(string(m.Data), marker) {
			w.Errorf("%s reads %s: %.200s", tenant, m.Subject, m.Data)
		}
	})
	if err != nil {
		w.Fatal(err)
	}
	const durable = "timer-service_svc-any-timer-5c46daa3"
	others := []string{
		"svc-owner." + durable, "svc-owner.x", "svc.globex.serviceCall", "svc.globex.dlq", "svc.globex.receipts", "svc.globex.timer",
		"svc.acme.serviceCall", "svc.acme.dlq", "timer.commands", "yardstick", "_INBOX_timer-service.x", "$JS.ACK.svc." + durable + ".1.1.1.1.0",
	}
	requests := []string{
		"$JS.API.STREAM.PURGE.svc", "$JS.API.STREAM.DELETE.svc", "$JS.API.STREAM.MSG.GET.svc", "$JS.API.DIRECT.GET.svc.svc.globex.serviceCall", "$JS.API.CONSUMER.DELETE.svc." + durable,
		"$JS.API.CONSUMER.CREATE.svc.spy-%d.svc.globex.serviceCall", "$JS.API.CONSUMER.DURABLE.CREATE.svc.spy-%d", "$JS.API.CONSUMER.MSG.NEXT.svc.globex-events", "$JS.API.CONSUMER.MSG.NEXT.svc." + durable,
		"$JS.timers.API.CONSUMER.CREATE.svc.spy-%d.svc.>", "$JS.timers.API.CONSUMER.MSG.NEXT.svc.globex-events", "$JS.timers.API.STREAM.PURGE.svc",
		"$JS.ACK.svc." + durable + ".1.%d.1.1.0", "$JS.ACK.svc.globex-events.1.%d.1.1.0",
	}
	forged := func(n int) []byte {
		return envelope.Reached(timer.DueTimeReached{
			Key: timer.Key{TenantID: "globex", ServiceCallID: timer.ServiceCallID(fmt.Sprint("order-", n))}, CommandID: "forged", DueAt: time.Now(), ReachedAt: time.Now(),
		})
	}
	cancel := func(n int) []byte {
		return envelope.Cancel(timer.CancelTimer{
			Key:     timer.Key{TenantID: "globex", ServiceCallID: timer.ServiceCallID(fmt.Sprint("order-", n))},
			Version: timer.Version{TimestampMS: time.Now().Add(time.Hour).UnixMilli(), CommandID: uuid.NewString()},
		})
	}
	every := func(pause time.Duration, burst int, do func(n int) error) func(context.Context) {
		return func(ctx context.Context) {
			tick := time.NewTicker(pause)
			defer tick.Stop()
			for n := 0; ctx.Err() == nil; {
				for range burst {
					if err := do(n); err != nil {
						w.Error(err)
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
		every(50*time.Millisecond, 20, func(n int) error { return conn.PublishRequest("timer.commands", others[n%len(others)], cancel(n)) }),
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
			v.mu.Lock()
			defer v.mu.Unlock()
			if len(v.ids) == 0 {
				return nil
			}
			return conn.PublishMsg(&nats.Msg{Subject: "timer.commands", Header: nats.Header{"Nats-Msg-Id": {v.ids[max(0, len(v.ids)-1-n%5)]}}, Data: []byte("{}")})
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
