package nats_test

import (
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server/ats"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/brokertest"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/broker/nats/embedded"
	"github.com/event-service-agent/timer-service/internal/longtest"
)

func TestMain(m *testing.M) {
	ats.Register() // here, so that the server's clock of access times does not belong to the first bubble
	code := longtest.Waiting(m)
	for _, f := range atEnd {
		f()
	}
	os.Exit(code)
}

var atEnd []func() // called after the last test

var quiet = slog.New(slog.DiscardHandler)

// features are those of a server in this process that only this process
// reaches.
var features = brokertest.Features{Durable: true, Replays: true, Positions: true, Dedupes: true, Wildcards: true, AllTenants: true, History: true, FakeTime: true, MaxBytes: 2 << 20}

func openEmbedded(t testing.TB) brokertest.Server { return inProcess(t, syncing(t)) }

// openLazily is for tests with thousands of acks, each of which takes a sync of the disk
// otherwise.
func openLazily(t testing.TB) brokertest.Server { return inProcess(t, serve(t)) }

func inProcess(t testing.TB, e *embedded.Server) brokertest.Server {
	s := brokertest.Server{Broker: func() broker.Broker { return nats.New(nats.Options{Server: e}, quiet) }}
	return destructible(t, s, "svc", "", natsgo.InProcessServer(e))
}

// destructible adds what purges and deletes a stream.
func destructible(t testing.TB, s brokertest.Server, stream, url string, options ...natsgo.Option) brokertest.Server {
	do := func(what func(jetstream.JetStream) error) {
		t.Helper()
		_, js := dial(t, url, options...)
		must(t, what(js))
	}
	s.Purge = func(_ string, below int64) {
		do(func(js jetstream.JetStream) error {
			s, err := js.Stream(t.Context(), stream)
			if err != nil {
				return err
			}
			return s.Purge(t.Context(), jetstream.WithPurgeSequence(uint64(below)))
		})
	}
	s.Delete = func() { do(func(js jetstream.JetStream) error { return js.DeleteStream(t.Context(), stream) }) }
	return s
}

func TestContractInProcess(t *testing.T) {
	t.Parallel()
	if longtest.Wanted() {
		brokertest.Run(t, features, openEmbedded)
		return
	}
	brokertest.Timed(t, features, openLazily)
	if !testing.Short() || os.Getenv("TIMER_TEST_NATS") == "" { // otherwise TestContractOnAnotherServer runs
		brokertest.Untimed(t, features, openEmbedded)
	}
}

func openListening(t testing.TB) brokertest.Server {
	url, stop, start, _ := listening(t)
	return destructible(t, brokertest.Server{
		Broker: func() broker.Broker { return nats.New(nats.Options{URL: url}, quiet) },
		Stop:   stop,
		Start:  start,
	}, "svc", url)
}

func TestContractOverTheNetwork(t *testing.T) {
	t.Parallel()
	longtest.NotShort(t)
	f := features
	f.FakeTime = false
	if longtest.Wanted() {
		brokertest.Run(t, f, openListening)
	} else {
		brokertest.Outages(t, f, openListening)
	}
}

func name() string { return strings.ReplaceAll(uuid.NewString(), "-", "") }

func TestWatermill(t *testing.T) {
	t.Parallel()
	longtest.NotShort(t)
	brokertest.Watermill(t, features, openLazily)
}

func BenchmarkBroker(b *testing.B) { brokertest.Bench(b, features, openEmbedded) }

func BenchmarkBrokerOverTheNetwork(b *testing.B) { brokertest.Bench(b, features, openListening) }
