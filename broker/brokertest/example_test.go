package brokertest_test

import (
	"log/slog"
	"testing"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/brokertest"
	"github.com/event-service-agent/timer-service/broker/gochannel"
)

// inMemory opens the server of a test of a driver, with topics that no other test
// uses. One that lives in this process has a broker only.
func inMemory(testing.TB) brokertest.Server {
	b := gochannel.New(gochannel.Options{}, slog.New(slog.DiscardHandler))
	return brokertest.Server{Broker: func() broker.Broker { return b }}
}

// The tests of a driver, in files that end with _test.go: TestContract, and
// TestWatermill next to it.
func ExampleRun() {
	features := brokertest.Features{AllTenants: true, FakeTime: true}
	_ = func(t *testing.T) { brokertest.Run(t, features, inMemory) }       // TestContract
	_ = func(t *testing.T) { brokertest.Watermill(t, features, inMemory) } // TestWatermill
	_ = func(b *testing.B) { brokertest.Bench(b, features, inMemory) }     // BenchmarkBroker
}
