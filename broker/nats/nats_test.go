package nats_test

import (
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server/ats"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/brokertest"
	"github.com/event-service-agent/timer-service/broker/nats"
)

func TestMain(m *testing.M) {
	ats.Register() // else the server's clock of access times belongs to the first bubble
	os.Exit(brokertest.Main(m))
}

var quiet = slog.New(slog.DiscardHandler)

// embedded are the features of a server in this process that only this process
// reaches.
var embedded = brokertest.Features{Durable: true, Replays: true, Positions: true, Dedupes: true, Wildcards: true, Offers: true, AllTenants: true, FakeTime: true, MaxBytes: 2 << 20}

func openEmbedded(t testing.TB) brokertest.Server {
	e, err := nats.StartEmbedded(nats.EmbeddedOptions{StoreDir: t.TempDir(), DontListen: true}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Shutdown)
	return brokertest.Server{Broker: func() broker.Broker { return nats.New(nats.Options{Server: e}, quiet) }}
}

func TestContractInProcess(t *testing.T) {
	t.Parallel()
	brokertest.Run(t, embedded, openEmbedded)
}

// openListening starts a server that can be stopped, and started again on the
// same port and directory.
func openListening(t testing.TB) brokertest.Server {
	opt := nats.EmbeddedOptions{StoreDir: t.TempDir()}
	var e *nats.Embedded
	start := func() {
		var err error
		if e, err = nats.StartEmbedded(opt, quiet); err != nil {
			t.Fatal(err)
		}
	}
	start()
	url := e.URL()
	opt.Port = portOf(t, url)
	t.Cleanup(func() { e.Shutdown() })
	return brokertest.Server{
		Broker: func() broker.Broker { return nats.New(nats.Options{URL: url}, quiet) },
		Stop:   func() { e.Shutdown() },
		Start:  start,
	}
}

func TestContractOverTheNetwork(t *testing.T) {
	t.Parallel()
	f := embedded
	f.FakeTime = false
	brokertest.Run(t, f, openListening)
}

func name() string { return strings.ReplaceAll(uuid.NewString(), "-", "") }

func TestWatermill(t *testing.T) {
	t.Parallel()
	brokertest.Watermill(t, embedded, openEmbedded)
}

func BenchmarkBroker(b *testing.B) { brokertest.Bench(b, embedded, openEmbedded) }

func BenchmarkBrokerOverTheNetwork(b *testing.B) { brokertest.Bench(b, embedded, openListening) }
