package embedded_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker/nats/embedded"
	"github.com/event-service-agent/timer-service/internal/longtest"
)

const (
	secret   = "correct-horse"
	own      = "timer-service_timer-commands"
	event    = "svc.acme.serviceCall"
	commands = "timer.commands"
)

// guarded starts a server with the stream and the consumer of a service.
func guarded(t *testing.T, token string) (*embedded.Server, jetstream.Stream) {
	t.Helper()
	s, err := embedded.Start(embedded.Options{StoreDir: t.TempDir(), SyncLazily: true, Access: &embedded.Access{
		Password: secret, Token: token, Stream: "svc", Commands: commands, Events: "svc.*.serviceCall", Receipts: "svc.*.receipts", Reserved: []string{own},
	}}, quiet)
	must(t, err)
	t.Cleanup(s.Shutdown)
	js, err := jetstream.New(connect(t, s.URL(), natsgo.UserInfo(embedded.Owner, secret)).Conn, jetstream.WithDefaultTimeout(time.Minute))
	must(t, err)
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "svc", Subjects: []string{"svc.>", commands}})
	must(t, err)
	if _, err := stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: own, FilterSubject: commands, AckPolicy: jetstream.AckExplicitPolicy}); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{event, "svc.beta.serviceCall", "svc.acme.dlq"} {
		if _, err := js.Publish(t.Context(), subject, []byte("of "+subject)); err != nil {
			t.Fatal(err)
		}
	}
	return s, stream
}

// TestGuestsLeaveHandlesToTheOwner: their number is limited.
func TestGuestsLeaveHandlesToTheOwner(t *testing.T) {
	t.Parallel()
	s, err := embedded.Start(embedded.Options{StoreDir: t.TempDir(), SyncLazily: true, Access: &embedded.Access{
		Password: secret, Stream: "svc", Commands: commands, Events: "svc.*.serviceCall", Guests: 10,
	}}, quiet)
	must(t, err)
	t.Cleanup(s.Shutdown)
	guests := 0
	for ; guests < 20 && err == nil; guests++ {
		var guest *natsgo.Conn
		if guest, err = natsgo.Connect(s.URL(), natsgo.Timeout(time.Minute)); err == nil {
			t.Cleanup(guest.Close)
		}
	}
	if !errors.Is(err, natsgo.ErrAuthorization) || guests > 11 {
		t.Errorf("after %d guests: %v", guests, err)
	}
	connect(t, s.URL(), natsgo.UserInfo(embedded.Owner, secret))
}

type peer struct{ *natsgo.Conn }

func connect(t *testing.T, url string, opt ...natsgo.Option) peer {
	t.Helper()
	conn, err := natsgo.Connect(url, append(opt, natsgo.Timeout(time.Minute), natsgo.ErrorHandler(func(*natsgo.Conn, *natsgo.Subscription, error) {}))...)
	must(t, err)
	t.Cleanup(conn.Close)
	return peer{conn}
}

// wasDenied waits until the server has read all bytes, and reports whether it
// denied a subject.
func (p *peer) wasDenied(t *testing.T, subject string) bool {
	t.Helper()
	must(t, p.FlushTimeout(time.Minute))
	return errors.Is(p.LastError(), natsgo.ErrPermissionViolation) && strings.Contains(p.LastError().Error(), `"`+subject+`"`)
}

// greeting returns the first message of the server to a new client, by which
// clients choose how to log in. A second INFO comes behind the first PONG; that says that
// credentials are needed, whatever the first one did (nats-server v2.15.2).
func greeting(t *testing.T, url string) (info server.Info) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "nats://"))
	must(t, err)
	defer conn.Close()
	line, err := bufio.NewReader(conn).ReadString('\n')
	must(t, err)
	must(t, json.Unmarshal([]byte(strings.TrimPrefix(line, "INFO ")), &info))
	return info
}

// TestGuestsScheduleAndReadEvents does what the README and the clients of the
// documentation do, without credentials.
func TestGuestsScheduleAndReadEvents(t *testing.T) {
	t.Parallel()
	s, stream := guarded(t, "")
	guest := connect(t, s.URL())
	if greeting(t, s.URL()).AuthRequired {
		t.Error("the server says that it needs credentials")
	}
	heard, err := guest.SubscribeSync(event)
	must(t, err)
	must(t, guest.Flush())
	js, err := jetstream.New(guest.Conn, jetstream.WithDefaultTimeout(time.Minute))
	must(t, err)
	sent := natsgo.NewMsg(commands)
	sent.Data = []byte("command")
	sent.Header.Set("correlationId", "c-1")
	ack, err := js.PublishMsg(t.Context(), sent, jetstream.WithMsgID("command-1"))
	if err != nil || ack.Stream != "svc" {
		t.Fatalf("publish: %v, %v", ack, err)
	}
	if ack, err := js.PublishMsg(t.Context(), sent, jetstream.WithMsgID("command-1")); err != nil || !ack.Duplicate {
		t.Errorf("publish again: %v, %v", ack, err)
	}
	must(t, guest.Publish(commands, []byte("without an ack")))
	must(t, guest.Flush())
	mine, err := stream.Consumer(t.Context(), own)
	must(t, err)
	batch, err := mine.Fetch(2, jetstream.FetchMaxWait(time.Minute))
	must(t, err)
	var got []string
	for m := range batch.Messages() {
		got = append(got, string(m.Data()))
		for name := range m.Headers() {
			if name != "correlationId" && name != "Nats-Msg-Id" {
				t.Errorf("the server adds the header %s", name)
			}
		}
	}
	if strings.Join(got, ", ") != "command, without an ack" {
		t.Errorf("the service receives %q", got)
	}

	if _, err := connect(t, s.URL(), natsgo.UserInfo(embedded.Owner, secret)).Request(event, []byte("now"), time.Minute); err != nil {
		t.Fatal(err)
	}
	if m, err := heard.NextMsg(time.Minute); err != nil || string(m.Data) != "now" {
		t.Errorf("a subscriber receives %v, %v", m, err)
	}
	if name, err := js.StreamNameBySubject(t.Context(), event); err != nil || name != "svc" {
		t.Errorf("the stream of events is %q, %v", name, err)
	}
	for _, config := range []jetstream.ConsumerConfig{
		{Durable: "billing", FilterSubject: event, AckPolicy: jetstream.AckExplicitPolicy},
		{FilterSubjects: []string{event, "svc.gamma.serviceCall", "svc.acme.receipts"}, AckPolicy: jetstream.AckExplicitPolicy},
	} {
		c, err := js.CreateOrUpdateConsumer(t.Context(), "svc", config)
		must(t, err)
		for _, want := range []string{"of " + event, "now"} {
			m, err := c.Next(jetstream.FetchMaxWait(time.Minute))
			if err != nil || string(m.Data()) != want {
				t.Fatalf("%v: %v, want %q", config, err, want)
			}
			must(t, m.DoubleAck(t.Context()))
		}
		if info, err := c.Info(t.Context()); err != nil || info.NumAckPending != 0 || info.AckFloor.Consumer != 2 {
			t.Errorf("%v: %+v, %v", config, info, err)
		}
	}
	old, err := guest.JetStream() // what older clients do
	must(t, err)
	sub, err := old.PullSubscribe("svc.*.serviceCall", "reports")
	must(t, err)
	if batch, err := sub.Fetch(3, natsgo.MaxWait(time.Minute)); err != nil || len(batch) != 3 {
		t.Errorf("an older client receives %d events, %v", len(batch), err)
	}
	c, err := js.OrderedConsumer(t.Context(), "svc", jetstream.OrderedConsumerConfig{FilterSubjects: []string{event}})
	must(t, err)
	if m, err := c.Next(jetstream.FetchMaxWait(time.Minute)); err != nil || string(m.Data()) != "of "+event {
		t.Errorf("an ordered consumer receives %v, %v", m, err)
	}
}

// TestGuestsMakeConsumersWithinLimits has a guest make as many as it can.
func TestGuestsMakeConsumersWithinLimits(t *testing.T) {
	longtest.NotShort(t)
	t.Parallel()
	s, stream := guarded(t, "")
	js, err := jetstream.New(connect(t, s.URL()).Conn, jetstream.WithDefaultTimeout(time.Minute))
	must(t, err)
	n := 0
	for ; n < 2000 && err == nil; n++ {
		name := fmt.Sprint("idle-", n)
		_, err = js.CreateConsumer(t.Context(), "svc", jetstream.ConsumerConfig{Durable: name, FilterSubject: event, AckPolicy: jetstream.AckExplicitPolicy, InactiveThreshold: time.Duration(n%2) * 30 * 24 * time.Hour})
		if err != nil {
			break
		}
		if c, err := stream.Consumer(t.Context(), name); err != nil || c.CachedInfo().Config.InactiveThreshold != 7*24*time.Hour {
			t.Fatalf("%s stays for %v, %v", name, c.CachedInfo().Config.InactiveThreshold, err)
		}
	}
	if api, ok := errors.AsType[*jetstream.APIError](err); !ok || api.Description != "maximum consumers limit reached" {
		t.Errorf("after %d consumers: %v", n, err)
	}
}

// TestGuestsDoNothingElse tries requests of a hostile user of the machine.
func TestGuestsDoNothingElse(t *testing.T) {
	t.Parallel()
	s, stream := guarded(t, "")
	guest := connect(t, s.URL())
	before, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(">"))
	must(t, err)
	for _, subject := range []string{
		event, "svc.acme.dlq", "svc.acme.other", "$JS.API.STREAM.PURGE.svc", "$JS.API.STREAM.DELETE.svc", "$JS.API.STREAM.UPDATE.svc",
		"$JS.API.STREAM.CREATE.mine", "$JS.API.STREAM.MSG.DELETE.svc", "$JS.API.STREAM.MSG.GET.svc", "$JS.API.DIRECT.GET.svc", "$JS.API.STREAM.SNAPSHOT.svc",
		"$JS.API.CONSUMER.DELETE.svc." + own, "$JS.API.CONSUMER.PAUSE.svc." + own, "$JS.API.CONSUMER.INFO.svc." + own, "$JS.API.CONSUMER.MSG.NEXT.svc." + own,
		"$JS.API.CONSUMER.LEADER.STEPDOWN.svc." + own, "$JS.ACK.svc." + own + ".1.1.1.1.0", "$JS.API.SERVER.REMOVE", "$SYS.REQ.SERVER.PING", "_INBOX_timer-service.x",
		"_INBOX_relay.x", "_R_.x",
	} {
		must(t, guest.Publish(subject, []byte("{}")))
		if !guest.wasDenied(t, subject) {
			t.Errorf("a guest may publish to %s", subject)
		}
	}
	for _, subject := range []string{commands, "svc.>", "svc.acme.dlq", ">", "$JS.>", "_INBOX_timer-service.>", "_INBOX_relay.>", "$SYS.>", "_R_.>"} {
		if _, err := guest.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
		if !guest.wasDenied(t, subject) {
			t.Errorf("a guest may subscribe to %s", subject)
		}
	}

	create := func(kind, name string, config map[string]any) *jetstream.APIError {
		t.Helper()
		body, err := json.Marshal(map[string]any{"stream_name": "svc", "config": config})
		must(t, err)
		m, err := guest.Request("$JS.API.CONSUMER."+kind+".svc"+name, body, time.Minute)
		must(t, err)
		var answer struct{ Error *jetstream.APIError }
		must(t, json.Unmarshal(m.Data, &answer))
		return answer.Error
	}
	type config = map[string]any
	for what, refused := range map[string]*jetstream.APIError{
		"commands":             create("CREATE", ".x."+commands, config{"filter_subject": commands}),
		"dead letters":         create("CREATE", ".x", config{"filter_subjects": []string{event, "svc.acme.dlq"}}),
		"everything":           create("CREATE", ".x", config{}),
		"all subjects":         create("DURABLE.CREATE", ".x", config{"durable_name": "x", "filter_subject": "svc.>"}),
		"another filter":       create("CREATE", ".x."+event, config{"filter_subject": commands}),
		"the own consumer":     create("CREATE", "."+own, config{"filter_subject": event, "durable_name": own}),
		"the own one, older":   create("DURABLE.CREATE", "."+own, config{"filter_subject": event, "durable_name": own}),
		"the own one, by name": create("CREATE", "", config{"filter_subject": event, "name": own}),
		"a forged ack":         create("CREATE", ".x", config{"filter_subject": event, "deliver_subject": "$JS.ACK.svc." + own + ".1.4.1.1.0", "headers_only": true}),
		"a push":               create("CREATE", ".x", config{"filter_subject": event, "deliver_subject": "_INBOX.x"}),
		"a source":             create("CREATE", ".x", config{"filter_subject": event, "direct": true}),
	} {
		if refused == nil {
			t.Errorf("a guest may make a consumer: %s", what)
		}
	}

	// Answers go only to the guest.
	if refused := create("CREATE", ".evil", config{"filter_subject": event}); refused != nil {
		t.Fatal(refused)
	}
	for _, reply := range []string{event, "svc.acme.dlq", commands, "$JS.API.STREAM.PURGE.svc", "_INBOX_timer-service.x"} {
		for subject, body := range map[string]string{"$JS.API.CONSUMER.MSG.NEXT.svc.evil": `{"batch":1}`, "$JS.API.STREAM.INFO.svc": "", "$JS.API.INFO": ""} {
			must(t, guest.PublishRequest(subject, reply, []byte(body)))
		}
	}
	if _, err := guest.Request("$JS.API.STREAM.INFO.svc", nil, time.Minute); err != nil { // after all before
		t.Fatal(err)
	}
	after, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(">"))
	must(t, err)
	delete(after.State.Subjects, commands) // which guests may publish to, also in this way
	if diff := cmp.Diff(before.State.Subjects, after.State.Subjects); diff != "" {
		t.Errorf("the stream holds (-before +after):\n%s", diff)
	}
	must(t, guest.PublishRequest(commands, event, []byte("a command whose ack were an event")))
	if _, err := guest.Request("$JS.API.STREAM.INFO.svc", nil, time.Minute); err != nil {
		t.Fatal(err)
	}
	if m, err := stream.GetLastMsgForSubject(t.Context(), event); err != nil || string(m.Data) != "of "+event {
		t.Errorf("the last event is %v, %v", m, err)
	}
	if consumer, err := stream.Consumer(t.Context(), own); err != nil || consumer.CachedInfo().Config.FilterSubject != commands {
		t.Errorf("the consumer of the service: %v", err)
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		what, token string
		give        natsgo.Option
		refused     bool
	}{
		{"none", "", nil, false},
		{"a wrong password", "", natsgo.UserInfo(embedded.Owner, "wrong"), true},
		{"no password", "", natsgo.UserInfo(embedded.Owner, ""), true},
		{"an unknown user", "", natsgo.UserInfo("root", secret), true},
		{"a token that nobody asked for", "", natsgo.Token("x"), true},
		{"none, where a token is needed", "hunter2", nil, true},
		{"a wrong token", "hunter2", natsgo.Token("hunter"), true},
		{"the token", "hunter2", natsgo.Token("hunter2"), false},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			s, _ := guarded(t, test.token)
			opt := []natsgo.Option{natsgo.Timeout(time.Minute)}
			if test.give != nil {
				opt = append(opt, test.give)
			}
			conn, err := natsgo.Connect(s.URL(), opt...)
			if err == nil {
				defer conn.Close()
			}
			if test.refused != errors.Is(err, natsgo.ErrAuthorization) || !test.refused && err != nil {
				t.Errorf("connect: %v", err)
			}
			if !test.refused {
				must(t, conn.Publish(event, nil))
				if conn.Flush(); !errors.Is(conn.LastError(), natsgo.ErrPermissionViolation) {
					t.Errorf("with %s events may be published: %v", test.what, conn.LastError())
				}
			}
		})
	}
}
