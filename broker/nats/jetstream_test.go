package nats_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/event-service-agent/timer-service/broker/nats"
)

// A server disables JetStream when it can't write to its disk, and goes on otherwise.
func TestServerWithoutItsJetStreamIsNoticedAtOnce(t *testing.T) {
	t.Parallel()
	s := guarded(t, &server.Options{})
	b := ready(t, nats.Options{URL: s.ClientURL()})
	messages := subscribe(t, b, role, commands)
	send(t, b, commands, "one")
	expect(t, messages, "one")
	config := s.JetStreamConfig()
	if err := s.DisableJetStream(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	until(t, "a broker that is not ready", func() bool { return b.Ready(t.Context()) != nil })
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("not ready after %v, want two seconds at most", took)
	}
	if err := s.EnableJetStream(config); err != nil {
		t.Fatal(err)
	}
	until(t, "a broker that is ready", func() bool { return b.Ready(t.Context()) == nil })
	send(t, b, commands, "two")
	expect(t, messages, "two")
}
