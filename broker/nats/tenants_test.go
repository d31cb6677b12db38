package nats_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/nats"
)

// ownerSubject is where the owner of the commands is kept.
const ownerSubject = "svc-owner." + durable

// replyTo publishes n commands as a tenant that names other subjects for the server's answers,
// and waits until the server has handled them.
func replyTo(t testing.TB, url string, n int, subject func(int) string) {
	t.Helper()
	acme, _ := dial(t, url, asAcme...)
	for i := range n {
		must(t, acme.PublishRequest(commands, subject(i), []byte("{}")))
	}
	if _, err := acme.Request(commands, []byte("{}"), time.Minute); err != nil { // acks come in order
		t.Fatal(err)
	}
}

var asAcme = []natsgo.Option{natsgo.UserInfo("acme", "change-me-acme"), natsgo.CustomInboxPrefix("_INBOX_acme")}

// asRoot returns the JetStream of the user that may do everything.
func asRoot(t testing.TB, url string) jetstream.JetStream {
	t.Helper()
	_, js := dial(t, url, natsgo.UserInfo("root", "root"))
	return js
}

// last returns the last message on a subject of a stream, or nil.
func last(t testing.TB, js jetstream.JetStream, stream, subject string) *jetstream.RawStreamMsg {
	t.Helper()
	m, _ := streamNamed(t, js, stream).GetLastMsgForSubject(t.Context(), subject)
	return m
}

// A tenant chooses the subject on which the server acks its command. Where tenants share an
// account that may be the subject of the owner.
func TestReplyOfATenantIsNoOwner(t *testing.T) {
	t.Parallel()
	url := provisioned(t, 0)
	b := ready(t, user(url, "service"))
	names := func(subject string) {
		t.Helper()
		found, err := b.Inspect(t.Context(), role)
		if err != nil || !strings.HasPrefix(found.Foreign, subject) || subject == "" && found.Foreign != "" {
			t.Errorf("the inspection names %q, %v, want %q", found.Foreign, err, subject)
		}
	}
	names("")
	replyTo(t, url, 1, func(int) string { return ownerSubject }) // before there is an owner
	names(ownerSubject)
	claims(t, b, mine, false, mine)
	names("")
	replyTo(t, url, 1, func(int) string { return ownerSubject })
	other := broker.Owner{Database: "other", Broker: mine.Broker, Name: "another one"}
	claims(t, b, other, false, mine)
	claims(t, b, mine, false, mine)
	replyTo(t, url, 30_000, func(i int) string { return fmt.Sprint("svc-owner.", i) })
	claims(t, b, other, true, other)
	claims(t, b, mine, false, other)
	replyTo(t, url, 1, func(int) string { return "svc.globex.serviceCall" })
	names("svc.globex.serviceCall (stream svc, sequence ")
	if n := streamNamed(t, asRoot(t, url), "svc-owner").CachedInfo().State.Msgs; n != 1 {
		t.Errorf("the stream of owners has %d messages", n)
	}
}

// A tenant that may read a durable consumer has what it reads delivered to a subject of its
// choice, with all headers. Of a dead letter it has chosen the body.
func TestDeliveryToATenantIsNoOwner(t *testing.T) {
	t.Parallel()
	const before = `user: acme, password: "change-me-acme"
        permissions {
          publish: { allow: ["timer.commands"`
	url := shippedWith(t, "accounts-simple.conf", func(conf string) string {
		return strings.Replace(conf, before, before+`, "$JS.API.CONSUMER.MSG.NEXT.svc.acme-letters"`, 1)
	})
	makeObjects(t, user(url, "admin"), 0)
	js := asRoot(t, url)
	makeConsumer(t, js, jetstream.ConsumerConfig{Durable: "acme-letters", FilterSubject: "svc.acme.dlq"})
	b := ready(t, user(url, "service"))
	acme, _ := dial(t, url, asAcme...)
	for i, subject := range []string{ownerSubject, "svc.globex.serviceCall"} {
		send(t, b, "svc.acme.dlq", "evil here sqlite evil.db")
		must(t, acme.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.svc.acme-letters", subject, []byte("1")))
		until(t, "a delivery", func() bool {
			c, err := js.Consumer(t.Context(), "svc", "acme-letters")
			return err == nil && c.CachedInfo().Delivered.Consumer > uint64(i)
		})
		for _, stream := range []string{"svc", "svc-owner"} { // the server keeps the subject that it had
			if m := last(t, js, stream, subject); m != nil {
				t.Errorf("%s has %s on %s", stream, m.Data, subject)
			}
		}
	}
	other := broker.Owner{Database: "other", Broker: mine.Broker, Name: "another one"}
	claims(t, b, mine, false, mine)
	claims(t, b, other, true, other)
}

// claims fails the test unless a claim returns want.
func claims(t testing.TB, b *nats.Broker, owner broker.Owner, takeover bool, want broker.Owner) {
	t.Helper()
	if got, err := b.Claim(t.Context(), role, owner, takeover); err != nil || got != want {
		t.Errorf("the owner is %v, %v, want %v", got, err, want)
	}
}

// Version 0.1.0 made a stream of owners that took the messages of producers. A start changes
// it, and so does an administrator, for a service that changes nothing.
func TestStreamOfOwnersOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*testing.T, string) nats.Options{
		"start": func(_ *testing.T, url string) nats.Options {
			return nats.Options{URL: url, Security: nats.Security{Username: "root", Password: "root"}}
		},
		"provision": func(t *testing.T, url string) nats.Options {
			if changes, err := nats.New(user(url, "admin"), quiet).Provision(t.Context(), false); err != nil || len(changes) != 1 {
				t.Errorf("changes %v, %v", changes, err)
			}
			return user(url, "service")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := provisioned(t, 0)
			js := asRoot(t, url)
			before := jetstream.StreamConfig{Name: "svc-owner", Subjects: []string{"svc-owner.*"}, Discard: jetstream.DiscardNew, MaxMsgsPerSubject: 1, MaxBytes: 1 << 20}
			must(t, js.DeleteStream(t.Context(), "svc-owner"))
			makeStream(t, js, before)
			put(t, js, &natsgo.Msg{Subject: ownerSubject, Data: []byte(mine.String())}, jetstream.WithExpectLastSequencePerSubject(0))
			replyTo(t, url, 20_000, func(i int) string { return fmt.Sprint("svc-owner.", i) })
			b := ready(t, change(t, url))
			other := broker.Owner{Database: "other", Broker: mine.Broker, Name: "another one with a longer name"}
			claims(t, b, other, false, mine)
			replyTo(t, url, 1, func(int) string { return ownerSubject })
			claims(t, b, other, false, mine)
			claims(t, b, other, true, other)
		})
	}
}

// apart starts a server with the accounts of the documentation, and one more tenant.
func apart(t testing.TB) (url string) {
	t.Helper()
	url = shipped(t, "accounts.conf")
	makeObjects(t, separate(url, "admin"), 0)
	return url
}

// separate returns the options of a user of the documentation that keeps tenants apart.
func separate(url, name string) nats.Options {
	opt := user(url, name)
	opt.Routing = broker.NATSRouting()
	opt.Routing.Commands = "svc.{tenant}.timer"
	return opt
}

func TestTenantInAnAccountOfItsOwn(t *testing.T) {
	t.Parallel()
	url := apart(t)
	s := ready(t, separate(url, "service"))
	claims(t, s, mine, false, mine)
	in := subscribe(t, s, role, s.Routing().Subscription())
	conn, js := dial(t, url, asAcme...)
	heard := make(map[string]*natsgo.Subscription)
	for _, subject := range []string{"svc.acme.serviceCall", "svc.acme.dlq", "svc.acme.receipts"} {
		heard[subject], _ = conn.SubscribeSync(subject)
	}

	// Its commands are acked, and come as its own.
	ack, err := js.Publish(t.Context(), commands, []byte("command"), jetstream.WithMsgID("id"))
	if err != nil || ack.Sequence != 1 {
		t.Fatalf("ack %v, %v", ack, err)
	}
	if ack, err = js.Publish(t.Context(), commands, []byte("command"), jetstream.WithMsgID("id")); err != nil || !ack.Duplicate {
		t.Errorf("the second ack %v, %v", ack, err)
	}
	if m := <-in; m.Metadata.Get(broker.MetaTopic) != "svc.acme.timer" {
		t.Errorf("the command came on %s", m.Metadata.Get(broker.MetaTopic))
	} else {
		m.Ack()
	}
	batch := make([]*message.Message, 100)
	for i := range batch {
		batch[i] = message.NewMessage(fmt.Sprint("command-", i), []byte("{}"))
	}
	if err := try(ready(t, user(url, "acme")), commands, batch...); err != nil {
		t.Errorf("a hundred commands: %v", err)
	}

	// Its events, dead letters and receipts reach it.
	for subject, sub := range heard {
		send(t, s, subject, "to "+subject)
		if m, err := sub.NextMsg(time.Minute); err != nil || string(m.Data) != "to "+subject {
			t.Errorf("%s: %v, %v", subject, m, err)
		}
	}
	makeConsumer(t, asRoot(t, url), jetstream.ConsumerConfig{Durable: "acme-events", FilterSubject: "svc.acme.serviceCall"})
	timers, err := jetstream.NewWithDomain(conn, "timers", answers)
	must(t, err)
	c, err := timers.Consumer(t.Context(), "svc", "acme-events")
	must(t, err)
	m, err := c.Next()
	if err != nil || string(m.Data()) != "to svc.acme.serviceCall" || m.DoubleAck(t.Context()) != nil {
		t.Errorf("the durable consumer has %v, %v", m, err)
	}
}

// TestTenantInAnAccountOfItsOwnHasNoReach has a tenant try all that it may publish to, and the
// server's answers.
func TestTenantInAnAccountOfItsOwnHasNoReach(t *testing.T) {
	t.Parallel()
	url := apart(t)
	root := asRoot(t, url)
	s := ready(t, separate(url, "service"))
	claims(t, s, mine, false, mine)
	makeConsumer(t, root, jetstream.ConsumerConfig{Durable: "acme-events", FilterSubject: "svc.acme.serviceCall"})
	send(t, s, "svc.acme.serviceCall", "event")
	durable := "timer-service_svc-any-timer-5c46daa3"
	conn, _ := dial(t, url, asAcme...)
	others := []string{
		"svc.globex.serviceCall", "svc.globex.dlq", "svc.globex.receipts", "svc.globex.timer", "svc-owner." + durable, "svc-owner.x",
		"$JS.ACK.svc." + durable + ".1.1.1.1.0", "$JS.API.STREAM.PURGE.svc", "$JS.API.STREAM.DELETE.svc", "$JS.API.CONSUMER.DELETE.svc." + durable,
		"$JS.API.STREAM.PURGE.svc-owner", "$JS.API.CONSUMER.CREATE.svc.spy", "$JS.API.CONSUMER.MSG.NEXT.svc." + durable, "$JS.API.STREAM.MSG.GET.svc", "$JS.API.DIRECT.GET.svc", "$JS.API.STREAM.INFO.svc",
	}
	spied, err := conn.SubscribeSync("svc.*.>")
	must(t, err)
	before := picture(t, root)
	for _, subject := range others {
		must(t, conn.Publish(subject, []byte(`{"seq":1}`)))
	}
	if _, err := conn.Request("$JS.timers.API.CONSUMER.INFO.svc.acme-events", nil, time.Minute); err != nil {
		t.Fatal(err)
	}
	if after := picture(t, root); after != before {
		t.Errorf("was %s\nis  %s", before, after)
	}
	for _, subject := range others {
		if strings.HasPrefix(subject, "$") { // the server refuses it as a reply
			continue
		}
		must(t, conn.PublishRequest(commands, subject, []byte("{}")))
		request, _ := json.Marshal(map[string]int{"batch": 1, "expires": int(time.Second)})
		must(t, conn.PublishRequest("$JS.timers.API.CONSUMER.MSG.NEXT.svc.acme-events", subject, request))
	}
	if _, err := conn.Request(commands, []byte("{}"), time.Minute); err != nil {
		t.Fatal(err)
	}
	send(t, s, "svc.globex.serviceCall", "of another")
	if _, err := conn.Request(commands, []byte("{}"), time.Minute); err != nil {
		t.Fatal(err)
	}
	for _, stream := range []string{"svc", "svc-owner"} {
		info, err := streamNamed(t, root, stream).Info(t.Context(), jetstream.WithSubjectFilter(">"))
		must(t, err)
		for subject, n := range info.State.Subjects {
			known := map[string]uint64{"svc.globex.serviceCall": 1, "svc.acme.serviceCall": 1, "svc-owner." + durable: 1}
			if want, ok := known[subject]; n != want && (ok || subject != "svc.acme.timer") {
				t.Errorf("%s has %d messages on %s", stream, n, subject)
			}
		}
	}
	claims(t, s, mine, false, mine)
	for {
		m, err := spied.NextMsg(100 * time.Millisecond)
		if err != nil {
			break
		}
		if string(m.Data) == "of another" {
			t.Errorf("acme reads %s on %s", m.Data, m.Subject)
		}
	}
}
