package nats_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/internal/proxy"
)

// A server disables JetStream when it can't write to its disk, and goes on otherwise.
func TestServerWithoutItsJetStreamIsNoticedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := guarded(t, &server.Options{DontListen: true})
		p := between(t, s)
		b := ready(t, nats.Options{Connect: []natsgo.Option{natsgo.InProcessServer(p)}})
		messages := subscribe(t, b, role, commands)
		send(t, b, commands, "one")
		expect(t, messages, "one")
		config := s.JetStreamConfig()
		config.StoreDir = strings.TrimSuffix(config.StoreDir, "/jetstream") // to which the server adds it again
		must(t, s.DisableJetStream())
		began := time.Now()
		until(t, "a broker that is not ready", func() bool { return b.Ready(t.Context()) != nil })
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("not ready after %v, want at most two seconds", took)
		}
		// A request that comes while JetStream starts is a data race in the server.
		p.Delay(proxy.ToServer, time.Second)
		synctest.Wait()
		must(t, s.EnableJetStream(config))
		p.Delay(proxy.ToServer, 0)
		until(t, "a broker that is ready", func() bool { return b.Ready(t.Context()) == nil })
		send(t, b, commands, "two")
		expect(t, messages, "two")
	})
}

// TestMessagesWaitForTheAcksOfOthers publishes more at once than may be unacked, to a server
// whose acks take long.
func TestMessagesWaitForTheAcksOfOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := between(t, syncing(t))
		b := ready(t, nats.Options{Connect: []natsgo.Option{natsgo.InProcessServer(p)}})
		p.Delay(proxy.ToServer, time.Second)
		var calls sync.WaitGroup
		for range 12 {
			calls.Go(func() {
				all := make([]broker.Message, 1000)
				for i := range all {
					all[i] = broker.Message{Topic: topic, Message: message.NewMessage(uuid.NewString(), []byte("body"))}
				}
				if err := broker.Join(b.Publisher().Publish(t.Context(), all...)); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
	})
}
