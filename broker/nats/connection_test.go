package nats_test

import (
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/internal/proxy"
)

// between puts a proxy before a server until the test ends.
func between(t *testing.T, s natsgo.InProcessConnProvider) *proxy.Proxy {
	t.Helper()
	p := proxy.New(s.InProcessConn)
	t.Cleanup(func() { p.Close() })
	return p
}

// cut has nothing arrive any more, and refuses new connections: a client that waits for
// an answer while it connects holds its lock (nats.go v1.55.0), and time stands still in a
// bubble where another one waits for that.
func cut(p *proxy.Proxy) {
	p.Drop(proxy.ToServer, proxy.ToClient)
	p.Refuse()
}

func TestHalfOpenConnectionIsFound(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := between(t, syncing(t))
		b := ready(t, nats.Options{AtomicBatches: true, Connect: []natsgo.Option{natsgo.InProcessServer(p)}})
		messages := subscribe(t, b, "reader", topic)
		publish(t, b, "before")
		expect(t, messages, "before")

		cut(p)
		began := time.Now()
		if b.Ready(t.Context()) == nil || time.Since(began) > time.Second {
			t.Errorf("ready, or silent for %v", time.Since(began))
		}
		err := try(b, topic, events(3000)...) // each batch waits for its ack
		if took := time.Since(began); err == nil || took > 30*time.Second {
			t.Errorf("publish: %v after %v", err, took)
		}
		p.Pass()
		until(t, "a new connection", func() bool { return b.Ready(t.Context()) == nil })
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("the connection was found dead after %v", took)
		}
		publish(t, b, "after")
		expectAll(t, messages, "after") // the last ack before may be lost
		if took := time.Since(began); took > 25*time.Second {
			t.Errorf("messages came again after %v", took)
		}
	})
}

func TestURLThatIsNoneIsAnErrorWithoutItsPassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"nats://timer:hunter2%zz@h", "nats://timer:hunter2@h:port", "nats://timer:hunter2@[::1"} {
		err := nats.New(nats.Options{URL: url}, quiet).Run(t.Context())
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("Run: %v", err)
		}
	}
}
