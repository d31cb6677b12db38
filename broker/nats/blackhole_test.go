package nats_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/broker/nats/embedded"
	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/internal/proxy"
)

// While the client library connects with a server that swallows everything it
// holds its lock, for as long as it waits for an answer (nats.go v1.55.0).
func TestReadyAnswersWhileConnecting(t *testing.T) {
	longtest.Skip(t, "watches eight seconds of attempts to connect")
	t.Parallel()
	e, err := embedded.Start(embedded.Options{StoreDir: t.TempDir(), SyncLazily: true}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Shutdown()
	u, err := url.Parse(e.URL())
	if err != nil {
		t.Fatal(err)
	}
	p := proxy.New(proxy.TCP(u.Host))
	defer p.Close()
	at, err := p.Listen()
	if err != nil {
		t.Fatal(err)
	}
	b := ready(t, nats.Options{URL: "nats://" + at})
	p.Drop(proxy.ToServer, proxy.ToClient)
	p.Reset()
	for began := time.Now(); time.Since(began) < 8*time.Second; {
		asked := time.Now()
		if err := b.Ready(t.Context()); err == nil {
			t.Error("ready without a broker")
		}
		if took := time.Since(asked); took > 2*time.Second {
			t.Fatalf("Ready took %v, want a second at most", took)
		}
	}
	p.Pass()
	until(t, "a broker that is ready", func() bool { return b.Ready(t.Context()) == nil })
}
