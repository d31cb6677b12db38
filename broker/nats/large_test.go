package nats_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/event-service-agent/timer-service/broker/nats"
)

// TestMessageThatIsLargerThanARequestStopsNoOther has a server take a message that is
// larger than the bytes asked for at once, since it took larger ones then.
func TestMessageThatIsLargerThanARequestStopsNoOther(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start := func(maxPayload int32) *server.Server {
		t.Helper()
		return launch(t, &server.Options{
			Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: dir, MaxPayload: maxPayload,
		})
	}
	s := start(32 << 20)
	large := strings.Repeat("x", 12<<20)
	b := ready(t, nats.Options{URL: s.ClientURL(), Client: true})
	if _, err := nats.New(nats.Options{URL: s.ClientURL()}, quiet).Provision(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{"before", large + "1", large + "2", "after"} {
		send(t, b, commands, body)
	}
	s.Shutdown()
	s.WaitForShutdown()

	messages := subscribe(t, ready(t, nats.Options{URL: start(1 << 20).ClientURL()}), role, commands)
	expectAll(t, messages, "before", large+"1", large+"2", "after")
}
