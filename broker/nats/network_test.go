package nats_test

import (
	"os"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/broker/nats/embedded"
)

// listening starts a server that others reach. It can be stopped, and started again on the
// same port and folder.
func listening(t testing.TB) (url string, stop, start func(), dir string) {
	t.Helper()
	opt := embedded.Options{Port: freePort(t), PortOnly: true, StoreDir: t.TempDir(), SyncLazily: true}
	var e *embedded.Server
	start = func() {
		var err error
		e, err = embedded.Start(opt, quiet)
		must(t, err)
	}
	start()
	t.Cleanup(func() { e.Shutdown() })
	return e.URL(), func() { e.Shutdown() }, start, opt.StoreDir
}

// TestServerThatComesBackWithAnOlderState restores a backup of the server's data
// while it is down: messages from after the backup are gone, and their numbers are given
// to others.
func TestServerThatComesBackWithAnOlderState(t *testing.T) {
	t.Parallel()
	url, stop, start, dir := listening(t)
	b := ready(t, nats.Options{URL: url})
	messages := subscribe(t, b, "reader", topic)
	publish(t, b, "one")
	expect(t, messages, "one")

	stop()
	backup := t.TempDir()
	must(t, os.CopyFS(backup, os.DirFS(dir)))
	start()
	awaitReady(t, b)
	publish(t, b, "two", "three")
	expectAll(t, messages, "two", "three")

	stop()
	must(t, os.RemoveAll(dir))
	must(t, os.CopyFS(dir, os.DirFS(backup)))
	start()
	awaitReady(t, b)
	publish(t, b, "other two", "other three")
	expectAll(t, messages, "other two", "other three")
}

// expectAll acks messages until all of the bodies have come. Others may come
// again: a server that ends may not have written the last acks.
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
