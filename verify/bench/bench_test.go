package bench_test

import (
	"context"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/verify/bench"
	"github.com/event-service-agent/timer-service/verify/crash"
	"github.com/event-service-agent/timer-service/verify/internal/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// TestMeasures runs each workload briefly: the figures mean nothing then, but that each
// timer fired once and not early is checked all the same.
func TestMeasures(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a broker and the service several times; left out by -short")
	}
	t.Parallel()
	bin := harness.Binary(t)
	for _, test := range []struct {
		name    string
		measure func(context.Context, bench.Options) (bench.Result, error)
		opt     bench.Options
	}{
		{"drain of the embedded broker", bench.Drain, bench.Options{Timers: 2000, Lead: 10 * time.Second, Embedded: true}},
		{"drain on Kafka", bench.Drain, bench.Options{Timers: 2000, Lead: 10 * time.Second, Broker: crash.KafkaHere()}},
		{"drain on RabbitMQ", bench.Drain, bench.Options{Timers: 2000, Lead: 10 * time.Second, Broker: crash.RabbitMQ}},
		{"drain of two instances with timers that wait", bench.Drain, bench.Options{Timers: 2000, Lead: 10 * time.Second, Store: crash.Postgres, Instances: 2, Pending: 5000}},
		{"steady over a network", bench.Steady, bench.Options{Rate: 200, Duration: 2 * time.Second, RoundTrip: 20 * time.Millisecond}},
		{"fairness", bench.Fairness, bench.Options{Timers: 2000, Tenants: 100, Lead: 15 * time.Second}},
		{"native", bench.Native, bench.Options{Timers: 500, Lead: 2 * time.Second}},
		{"river", bench.River, bench.Options{Timers: 500}},
		{"RabbitMQ steady", bench.RabbitMQSteady, bench.Options{Rate: 100, Duration: 2 * time.Second}},
		{"river steady", bench.RiverSteady, bench.Options{Rate: 100, Duration: 2 * time.Second}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			opt := test.opt
			opt.Bin = bin
			r, err := test.measure(t.Context(), opt)
			harness.Need(t, err)
			if trip := float64(opt.RoundTrip.Milliseconds()) / 2; trip > 0 && r.Lateness.P50 < trip {
				t.Errorf("half of the events were less late than their way takes: %v ms", r.Lateness.P50)
			}
			if r.Timers <= 0 || r.Delivered <= 0 && r.Lateness == nil {
				t.Errorf("measured %+v", r)
			}
		})
	}
}
