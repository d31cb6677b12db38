package nats_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/internal/longtest"
)

// documented starts a server with the permissions of the documentation, where tenants share
// an account, without some lines, and with one more user, root, who may do everything.
func documented(t testing.TB, without ...string) (url string) {
	t.Helper()
	return shipped(t, "accounts-simple.conf", without...)
}

// shipped starts a server with a file of the documentation.
func shipped(t testing.TB, name string, without ...string) (url string) {
	t.Helper()
	return shippedWith(t, name, func(text string) string {
		for _, line := range without {
			if !strings.Contains(text, line) {
				t.Fatalf("the documentation does not permit %s", line)
			}
			text = strings.Replace(text, line, "", 1)
		}
		return text
	})
}

// shippedWith starts a server with a changed file of the documentation, and the user root.
func shippedWith(t testing.TB, name string, change func(string) string) (url string) {
	t.Helper()
	conf, err := os.ReadFile("../../docs/brokers/" + name)
	must(t, err)
	text := change(strings.Replace(string(conf), "users: [", "users: [{ user: root, password: root }", 1))
	file := filepath.Join(t.TempDir(), "nats.conf")
	must(t, os.WriteFile(file, []byte(text), 0o600))
	opt, err := server.ProcessConfigFile(file)
	must(t, err)
	return guarded(t, opt).ClientURL()
}

// provisioned starts the documented server, where an administrator has made what a
// service needs.
func provisioned(t testing.TB, maxBytes int64, without ...string) (url string) {
	t.Helper()
	url = documented(t, without...)
	makeObjects(t, user(url, "admin"), maxBytes)
	return url
}

func makeObjects(t testing.TB, admin nats.Options, maxBytes int64) {
	t.Helper()
	admin.MaxBytes = maxBytes
	if _, err := nats.New(admin, quiet).Provision(t.Context(), false); err != nil {
		t.Fatal(err)
	}
}

// user returns the options of one who is in the documentation: the administrator, the service,
// which makes nothing, or a client.
func user(url, name string) nats.Options {
	opt := nats.Options{URL: url, Security: nats.Security{Username: name, Password: "change-me-" + name}}
	switch name {
	case "service":
		opt.Verify = true
	case "admin":
		opt.Name = "timer-provision"
	default:
		opt.Client, opt.Inbox = true, "_INBOX_"+name
	}
	return opt
}

func TestDocumentedPermissionsAreEnough(t *testing.T) {
	t.Parallel()
	url := documented(t)
	for i, want := range []int{3, 0} {
		if changes, err := nats.New(user(url, "admin"), quiet).Provision(t.Context(), false); err != nil || len(changes) != want {
			t.Fatalf("call %d: %v, %v", i, changes, err)
		}
	}
	s, c, o := ready(t, user(url, "service")), ready(t, user(url, "acme")), ready(t, user(url, "operator"))
	if _, err := s.Now(t.Context()); err != nil {
		t.Errorf("the time of the server: %v", err)
	}

	for _, claimed := range []broker.Owner{mine, {Database: "other"}} {
		if got, err := s.Claim(t.Context(), role, claimed, false); err != nil || got != mine {
			t.Errorf("the owner is %v, %v", got, err)
		}
	}

	tails := make(map[string]<-chan *message.Message)
	for _, subject := range []string{"svc.acme.serviceCall", "svc.acme.dlq"} {
		in, err := c.Tail().Subscribe(t.Context(), subject)
		must(t, err)
		tails[subject] = in
	}
	for _, subject := range []string{commands, "svc.*.serviceCall", "svc.*.dlq", "svc.*.receipts"} { // what people listen to through it
		if _, err := s.Tail().Subscribe(t.Context(), subject); err != nil {
			t.Error(err)
		}
	}
	in := subscribe(t, s, role, commands)
	var batch []*message.Message
	for i := range 100 { // enough for the client to ask whether the stream takes batches
		batch = append(batch, message.NewMessage(fmt.Sprint("command-", i), fmt.Append(nil, i)))
	}
	must(t, try(c, commands, batch...))
	for i := range batch {
		msg := <-in
		if i == 0 {
			msg.Nack() // it comes again
		} else {
			msg.Ack()
		}
	}
	(<-in).Ack()
	if n := replayed(t, s, broker.Commands); n != len(batch) {
		t.Errorf("replayed %d commands", n)
	}
	if logs, err := s.Logs(t.Context(), role); err != nil || len(logs) != 3 {
		t.Errorf("logs %v, %v", logs, err)
	}
	if _, err := s.Used(t.Context(), role); err != nil {
		t.Errorf("used: %v", err)
	}

	// An event whose id a command has is delivered, and so are those in batches.
	events := []*message.Message{message.NewMessage("command-1", []byte("event"))}
	for i := range 299 {
		events = append(events, message.NewMessage(fmt.Sprint("event-", i), nil))
	}
	must(t, try(s, "svc.acme.serviceCall", events...))
	bodies := make(map[string]int)
	for range len(events) + 1 { // a tail hears both tries
		bodies[string((<-tails["svc.acme.serviceCall"]).Payload)]++
	}
	if bodies["event"] != 2 {
		t.Errorf("the events were %v", bodies)
	}
	send(t, s, "svc.acme.receipts", "receipt")
	send(t, s, "svc.acme.dlq", "poison")
	expect(t, tails["svc.acme.dlq"], "poison")
	for kind, want := range map[broker.Kind]int{broker.Events: len(events), broker.DeadLetter: 1} {
		if n := replayed(t, s, kind); n != want {
			t.Errorf("replayed %d messages of kind %d, want %d", n, kind, want)
		}
	}
	if n := visits(t, s, false); n != 1 {
		t.Errorf("the service sees %d dead letters", n)
	}
	if n := visits(t, o, false); n != 1 {
		t.Errorf("the operator sees %d dead letters", n)
	}
	if n := visits(t, s, true); n != 1 {
		t.Errorf("the service removes %d dead letters", n)
	}
	send(t, s, commands, "replayed") // as what people send through it
	expect(t, in, "replayed")
	if n := visits(t, o, false); n != 0 {
		t.Errorf("%d dead letters are left", n)
	}
	for name, b := range map[string]*nats.Broker{"service": s, "tenant": c, "operator": o} {
		if err := b.Ready(t.Context()); err != nil {
			t.Errorf("the %s: %v", name, err)
		}
	}
}

func visits(t testing.TB, b *nats.Broker, remove bool) (n int) {
	t.Helper()
	must(t, b.VisitDeadLetters(t.Context(), "", "", broker.EachDeadLetter(t.Context(), func(*message.Message) (bool, error) { n++; return remove, nil })))
	return n
}

// An intruder is a connection that tries forbidden requests.
type intruder struct {
	*natsgo.Conn
	mu     sync.Mutex
	denied []string
}

func intrude(t testing.TB, url, user, inbox string) *intruder {
	t.Helper()
	i := new(intruder)
	var err error
	i.Conn, err = natsgo.Connect(url, unhurried, natsgo.UserInfo(user, "change-me-"+user), natsgo.CustomInboxPrefix(inbox),
		natsgo.ErrorHandler(func(_ *natsgo.Conn, _ *natsgo.Subscription, err error) {
			i.mu.Lock()
			defer i.mu.Unlock()
			if errors.Is(err, natsgo.ErrPermissionViolation) {
				i.denied = append(i.denied, err.Error())
			}
		}))
	must(t, err)
	t.Cleanup(i.Close)
	return i
}

// wasDenied waits until the server has said that a subject is denied.
func (i *intruder) wasDenied(t testing.TB, subject string) {
	t.Helper()
	until(t, "the denial of "+subject, func() bool {
		i.mu.Lock()
		defer i.mu.Unlock()
		return slices.ContainsFunc(i.denied, func(text string) bool { return strings.Contains(text, `"`+subject+`"`) })
	})
}

func TestDocumentedPermissionsDenyAbuse(t *testing.T) {
	t.Parallel()
	longtest.NotShort(t)
	url := provisioned(t, 0, `"$JS.API.STREAM.PURGE.svc"`, `"$JS.API.DIRECT.GET.svc"`, `"$JS.API.INFO"`) // which are optional
	js := asRoot(t, url)
	other := makeStream(t, js, jetstream.StreamConfig{Name: "other", Subjects: []string{"other.>"}, AllowDirect: true})
	makeConsumer(t, js, jetstream.ConsumerConfig{Durable: "billing"})
	for _, subject := range []string{"other.a", "svc.beta.serviceCall", commands} {
		put(t, js, &natsgo.Msg{Subject: subject, Data: []byte("precious")})
	}
	for _, consumer := range []string{"billing", durable} { // waiting messages are counted a moment later
		until(t, "the count of "+consumer, func() bool {
			c, err := js.Consumer(t.Context(), "svc", consumer)
			return err == nil && c.CachedInfo().NumPending > 0
		})
	}
	before := picture(t, js)

	publishes := []string{
		"$JS.API.STREAM.PURGE.svc", "$JS.API.STREAM.DELETE.svc", "$JS.API.STREAM.UPDATE.svc", "$JS.API.STREAM.CREATE.mine",
		"$JS.API.STREAM.SNAPSHOT.svc", "$JS.API.STREAM.RESTORE.svc", "$JS.API.STREAM.LEADER.STEPDOWN.svc", "$JS.API.STREAM.NAMES",
		"$JS.API.CONSUMER.DELETE.svc.billing", "$JS.API.CONSUMER.DELETE.svc." + durable, "$JS.API.CONSUMER.CREATE.svc.mine.svc.>",
		"$JS.API.CONSUMER.CREATE.svc." + durable + ".svc.>", "$JS.API.CONSUMER.DURABLE.CREATE.svc.mine", "$JS.API.CONSUMER.PAUSE.svc." + durable,
		"$JS.API.CONSUMER.MSG.NEXT.svc.billing", "$JS.ACK.svc.billing.1.1.1.1.0",
		"$JS.API.STREAM.INFO.other", "$JS.API.STREAM.MSG.GET.other", "$JS.API.STREAM.MSG.DELETE.other", "$JS.API.STREAM.PURGE.other",
		"$JS.API.STREAM.DELETE.svc-owner", "$JS.API.STREAM.PURGE.svc-owner", "svc-owner.billing", "$JS.API.DIRECT.GET.other", "$JS.API.DIRECT.GET.other.other.a", "$JS.API.DIRECT.GET.svc", "$JS.API.INFO",
		"$SYS.REQ.SERVER.PING", "$SYS.REQ.ACCOUNT.TIMERS.CONNZ", "$SYS.REQ.USER.INFO",
		"other.a", "billing", "svc.acme.other", "svc.a.b.serviceCall", "timer.other", "_INBOX_billing.x",
	}
	subscriptions := []string{">", "*", "*.>", "svc.>", "other.>", "$JS.>", "$JS.ACK.>", "$SYS.>", "_INBOX.>", "_INBOX_billing.>", "svc.beta.serviceCall"}
	for _, intruders := range []struct {
		user, inbox           string
		publishes, subscribes []string
	}{
		{"service", "_INBOX_timer-service", publishes, subscriptions[:len(subscriptions)-1]},
		{"operator", "_INBOX_operator", append(publishes, "svc.acme.serviceCall", "svc.acme.dlq"), []string{">", "svc.>", "$JS.>", commands, "_INBOX_timer-service.>"}},
		{
			"acme", "_INBOX_acme",
			append(publishes, "svc-owner."+durable, "svc.acme.serviceCall", "svc.beta.dlq", "$JS.API.STREAM.MSG.GET.svc", "$JS.API.STREAM.INFO.svc", "$JS.ACK.svc."+durable+".1.1.1.1.0"),
			append(subscriptions, commands, "svc.*.serviceCall", "svc.*.dlq", "_INBOX_timer-service.>"),
		},
	} {
		t.Run(intruders.user, func(t *testing.T) {
			i := intrude(t, url, intruders.user, intruders.inbox)
			for _, subject := range intruders.publishes {
				if err := i.Publish(subject, []byte(`{"seq":1}`)); err != nil {
					t.Error(err)
				}
				i.wasDenied(t, subject)
			}
			for _, subject := range intruders.subscribes {
				if _, err := i.Subscribe(subject, func(m *natsgo.Msg) { t.Errorf("got %s", m.Subject) }); err != nil {
					t.Error(err)
				}
				i.wasDenied(t, subject)
			}
			rollsUp(t, i, map[string]string{"service": "svc.acme.serviceCall", "operator": commands, "acme": commands}[intruders.user])
		})
	}
	if after := picture(t, js); after != before {
		t.Errorf("was %s\nis  %s", before, after)
	}
	if info, err := other.Info(t.Context()); err != nil || info.State.Msgs != 1 {
		t.Errorf("the other stream: %+v, %v", info, err)
	}
}

// rollsUp tries to purge the stream, where publishing is permitted, and to
// publish elsewhere by a schedule.
func rollsUp(t *testing.T, i *intruder, subject string) {
	t.Helper()
	for name, value := range map[string]string{"Nats-Rollup": "all", "Nats-Schedule": "@at 2020-01-01T00:00:00Z"} {
		m := &natsgo.Msg{Subject: subject, Header: natsgo.Header{name: {value}, "Nats-Schedule-Target": {"svc.beta.dlq"}}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		answer, err := i.RequestMsgWithContext(ctx, m)
		if err != nil || !strings.Contains(string(answer.Data), `"error"`) {
			t.Errorf("%s: %v, %v", name, answer, err)
		}
	}
}

// picture returns the state of the server.
func picture(t testing.TB, js jetstream.JetStream) string {
	t.Helper()
	var all []any
	streams := js.ListStreams(t.Context())
	for s := range streams.Info() {
		all = append(all, s.Config, s.State.Msgs, s.State.FirstSeq, s.State.Consumers)
		for c := range streamNamed(t, js, s.Config.Name).ListConsumers(t.Context()).Info() {
			all = append(all, c.Config, c.NumPending, c.NumAckPending)
		}
	}
	text, err := json.Marshal(all)
	if err != nil || streams.Err() != nil {
		t.Fatal(err, streams.Err())
	}
	return string(text)
}

// A request that is denied fails at once, and not after a timeout.
func TestWhatIsDeniedIsAnErrorAtOnce(t *testing.T) {
	t.Parallel()
	url := provisioned(t, 0)
	tenant := user(url, "acme")
	tenant.Client = false // it looks up the stream
	b := run(t, tenant)
	awaitNotReady(t, b, "$JS.API.STREAM.INFO.svc")
	tenant.Client = true
	c := ready(t, tenant)
	if err := c.VisitDeadLetters(t.Context(), "acme", "", broker.EachDeadLetter(t.Context(), func(*message.Message) (bool, error) { return false, nil })); !errors.Is(err, broker.ErrDenied) {
		t.Errorf("dead letters: %v", err)
	}
	for range 20 { // the library may notify of it later than it answers
		var tails sync.WaitGroup
		for _, subject := range []string{"svc.beta.serviceCall", "svc.beta.dlq"} {
			tails.Go(func() {
				in, err := c.Tail().Subscribe(t.Context(), subject)
				switch {
				case err != nil && (!errors.Is(err, broker.ErrDenied) || !strings.Contains(err.Error(), subject)):
					t.Errorf("a tail of %s: %v", subject, err)
				case err == nil: // the denial of the other one came between
					<-in
				}
			})
		}
		tails.Wait()
	}
	if _, err := c.Tail().Subscribe(t.Context(), "svc.beta.dlq"); !errors.Is(err, broker.ErrDenied) {
		t.Errorf("a tail: %v", err)
	}
	if _, err := c.Tail().Subscribe(t.Context(), "svc.acme.dlq"); err != nil {
		t.Errorf("a tail that is permitted: %v", err)
	}
	tenant.Inbox = "_INBOX_other" // where it may not listen
	d := ready(t, tenant)
	if err := try(d, commands, message.NewMessage("", nil)); err == nil {
		t.Error("an ack on a subject that it may not subscribe to")
	} else if !strings.Contains(err.Error(), "_INBOX_other") {
		t.Errorf("without an inbox: %v", err)
	}
}

// TestRemovalNeedsWhatIsDocumented fills the stream with commands that are all acked.
func TestRemovalNeedsWhatIsDocumented(t *testing.T) {
	longtest.NotShort(t)
	t.Parallel()
	for _, without := range []string{"", `"$JS.API.STREAM.PURGE.svc"`, `"$JS.API.CONSUMER.LIST.svc"`} {
		t.Run("without "+without, func(t *testing.T) {
			t.Parallel()
			url := provisioned(t, 1<<20, without)
			service, tenant := user(url, "service"), user(url, "acme")
			service.MaxBytes = 1 << 20
			b, lines := logging(t, service)
			keeping(t, b)
			go acking(subscribe(t, b, role, commands))
			publisher := broker.NewWatermillPublisher(ready(t, tenant).Publisher())
			for sent := 0; sent < 300; {
				if publisher.Publish(commands, message.NewMessage(fmt.Sprint(sent), make([]byte, 10_000))) == nil {
					sent++
				} else if subject := strings.Trim(without, `"`); without != "" {
					until(t, "a line that names "+subject, func() bool {
						return strings.Contains(lines.String(), "no more can be removed") && strings.Contains(lines.String(), subject)
					})
					return
				}
			}
		})
	}
}
