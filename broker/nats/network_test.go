package nats_test

import (
	"bufio"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/broker/nats/embedded"
)

// listening starts a server that others reach, and returns where. Start and stop
// are for who changes its data meanwhile.
func listening(t testing.TB) (at string, stop, start func(), dir string) {
	t.Helper()
	opt := embedded.Options{Port: freePort(t), PortOnly: true, StoreDir: t.TempDir(), SyncLazily: true}
	var e *embedded.Server
	start = func() {
		var err error
		if e, err = embedded.Start(opt, quiet); err != nil {
			t.Fatal(err)
		}
	}
	start()
	t.Cleanup(func() { e.Shutdown() })
	u, err := url.Parse(e.URL())
	if err != nil {
		t.Fatal(err)
	}
	return u.Host, func() { e.Shutdown() }, start, opt.StoreDir
}

// TestWhatNoClientLibraryWouldSend speaks to the server over the network, as one
// who means harm, while a service is connected with it.
func TestWhatNoClientLibraryWouldSend(t *testing.T) {
	t.Parallel()
	at, _, _, _ := listening(t)
	b := ready(t, nats.Options{URL: "nats://" + at})
	messages := subscribe(t, b, "reader", topic)
	publish(t, b, "before")
	expect(t, messages, "before")

	pub := func(subject, header, body string) string {
		return fmt.Sprintf("HPUB %s %d %d\r\n%s%s\r\n", subject, len(header), len(header)+len(body), header, body)
	}
	for i, tt := range []struct {
		sent string
		want string // body that arrives; empty if none does
	}{
		{pub(topic, "NATS/1.0\r\nNats-Rollup: all\r\n\r\n", "evil"), ""},
		{pub(topic, "NATS/1.0\r\nNats-Rollup: sub\r\n\r\n", "evil"), ""},
		{pub(topic, "NATS/1.0\r\nNats-Expected-Stream: other\r\n\r\n", "evil"), ""},
		{pub(topic, "NATS/1.0\r\nNats-Msg-Id: twice\r\n\r\n", "once") + pub(topic, "NATS/1.0\r\nNats-Msg-Id: twice\r\n\r\n", "again"), "once"},
		{pub(topic, "NATS/1.0 409 Consumer Deleted\r\n\r\n", "status"), "status"},
		{pub(topic, "NATS/1.0 503\r\n\r\n", "status"), "status"},
		{pub(topic, "NATS/1.0\r\na: b\r\nSplit: x\r\n Nats-Rollup: all\r\n\r\n", "folded"), "folded"},
		{pub(topic, "NATS/1.0\r\nserviceCallId: "+strings.Repeat("c", 50_000)+"\r\n\r\n", "large"), "large"},
		{"PUB svc." + strings.Repeat("s", 5_000) + ".serviceCall 4\r\nevil\r\n", ""},
		{"PUB $JS.ACK.svc.reader_svc-acme-serviceCall.1.1.1.1.0 4\r\n+ACK\r\n", ""},
		{"PUB _INBOX_timer-service.x 4\r\nevil\r\n", ""},
	} {
		rawTCP(t, at, tt.sent)
		if tt.want != "" {
			expect(t, messages, tt.want)
		}
		good := fmt.Sprint("good ", i)
		publish(t, b, good)
		expect(t, messages, good)
	}
	expectAll(t, subscribe(t, b, "auditor", topic), "before", "good 0", "once", "status", "folded", "large") // nothing was purged

	if err := broker.NewWatermillPublisher(b.Publisher()).Publish("svc."+strings.Repeat("s", 5_000)+".serviceCall", message.NewMessage("", nil)); err == nil {
		t.Error("a subject of 5,000 characters is published to")
	}
	publish(t, b, "after")
	expect(t, messages, "after")
}

// rawTCP sends to a server whatever it is given, and waits until it has been read,
// or the server has ended the connection.
func rawTCP(t testing.TB, at, text string) {
	t.Helper()
	conn, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "CONNECT {\"verbose\":false,\"headers\":true}\r\n%sPING\r\n", text); err != nil {
		return // it was enough
	}
	for lines := bufio.NewReader(conn); ; {
		line, err := lines.ReadString('\n')
		if err != nil || strings.HasPrefix(line, "PONG") || strings.HasPrefix(line, "-ERR") {
			return
		}
	}
}

// TestServerThatComesBackWithAnOlderState restores a backup of the server's data
// while it is down: what came after the backup is gone, and its numbers are given
// to others.
func TestServerThatComesBackWithAnOlderState(t *testing.T) {
	t.Parallel()
	at, stop, start, dir := listening(t)
	b := ready(t, nats.Options{URL: "nats://" + at})
	messages := subscribe(t, b, "reader", topic)
	publish(t, b, "one")
	expect(t, messages, "one")

	stop()
	backup := t.TempDir()
	if err := os.CopyFS(backup, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	start()
	until(t, "a new connection", func() bool { return b.Ready(t.Context()) == nil })
	publish(t, b, "two", "three")
	expectAll(t, messages, "two", "three")

	stop()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS(backup)); err != nil {
		t.Fatal(err)
	}
	start()
	until(t, "a new connection", func() bool { return b.Ready(t.Context()) == nil })
	publish(t, b, "other two", "other three")
	expectAll(t, messages, "other two", "other three")
}

// expectAll acks messages until all of the bodies have come. Others may come
// again: a server that ends may not have written down what was acked last.
func expectAll(t testing.TB, messages <-chan *message.Message, bodies ...string) {
	t.Helper()
	missing := make(map[string]bool)
	for _, body := range bodies {
		missing[body] = true
	}
	for len(missing) > 0 {
		select {
		case msg := <-messages:
			delete(missing, string(msg.Payload))
			msg.Ack()
		case <-time.After(time.Minute):
			t.Fatalf("missing are %v", missing)
		}
	}
}
