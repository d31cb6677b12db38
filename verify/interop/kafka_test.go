package interop_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

// serveKafkaIn runs Kafka and the service until the test ends, with a folder for the
// database, and returns the address of Kafka.
func serveKafkaIn(t *testing.T, dir string) string {
	t.Helper()
	address := kafkaBroker(t)
	serveIn(t, dir, "TIMER_BROKER=kafka", "TIMER_BROKER_URL="+address)
	return address
}

// kafkaBroker runs Kafka until the test ends, and returns its address.
func kafkaBroker(t *testing.T) string {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c.ListenAddrs()[0]
}
