package kafka_test

import (
	"os"
	"testing"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/brokertest"
	"github.com/event-service-agent/timer-service/broker/kafka"
)

// TestContractOnAServer runs the suite on a Kafka outside of this process. The other tests
// use one in their process. The step servers of .ci/nightly starts a server for this test.
func TestContractOnAServer(t *testing.T) {
	t.Parallel()
	address := os.Getenv("TIMER_TEST_KAFKA")
	if address == "" {
		t.Skip("SKIPPED: set TIMER_TEST_KAFKA to the address of a Kafka, such as 127.0.0.1:9092, to test against it")
	}
	f := features
	f.FakeTime = false
	f.MaxBytes = 1 << 20 // of Kafka itself; kfake takes twice as much
	brokertest.Run(t, f, func(testing.TB) brokertest.Server {
		opt := kafka.Options{URL: address, Routing: routing()}
		return brokertest.Server{Broker: func() broker.Broker { return kafka.New(opt, quiet) }}
	})
}
