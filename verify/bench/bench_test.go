package bench_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/internal/rabbitd"
	"github.com/event-service-agent/timer-service/verify/bench"
	"github.com/event-service-agent/timer-service/verify/bench/database"
	"github.com/event-service-agent/timer-service/verify/crash"
	"github.com/event-service-agent/timer-service/verify/internal/postgresd"
)

// TestMain makes the binary of the test the broker too.
func TestMain(m *testing.M) {
	if crash.IsBroker() {
		if err := crash.ServeBroker(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestMeasures runs each workload briefly: the figures mean nothing then, but that each
// timer fired once and not early is checked all the same.
func TestMeasures(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a broker and the service several times; left out by -short")
	}
	t.Parallel()
	bin, err := crash.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name    string
		measure func(context.Context, bench.Options) (bench.Result, error)
		opt     bench.Options
	}{
		{"drain of the embedded broker", bench.Drain, bench.Options{Timers: 2000, Lead: 10 * time.Second, Embedded: true}},
		{"drain on Kafka", bench.Drain, bench.Options{Timers: 2000, Lead: 10 * time.Second, Broker: crash.Kafka}},
		{"drain on RabbitMQ", bench.Drain, bench.Options{Timers: 2000, Lead: 10 * time.Second, Broker: crash.RabbitMQ}},
		{"drain of two instances beside timers that wait", bench.Drain, bench.Options{Timers: 2000, Lead: 10 * time.Second, Store: database.Postgres, Instances: 2, Pending: 5000}},
		{"steady", bench.Steady, bench.Options{Rate: 200, Duration: 2 * time.Second}},
		{"fairness", bench.Fairness, bench.Options{Timers: 2000, Tenants: 100, Lead: 15 * time.Second}},
		{"native", bench.Native, bench.Options{Timers: 500, Lead: 2 * time.Second}},
		{"river", bench.River, bench.Options{Timers: 500}},
		{"river steady", bench.RiverSteady, bench.Options{Rate: 100, Duration: 2 * time.Second}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			opt := test.opt
			opt.Bin = bin
			if opt.Store == database.Postgres || strings.HasPrefix(test.name, "river") {
				opt.DBURL = pgtest.Server(t)
			}
			r, err := test.measure(t.Context(), opt)
			if errors.Is(err, rabbitd.ErrNotInstalled) && os.Getenv("TIMER_TEST_REQUIRE") == "" {
				t.Skip("SKIPPED: ", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.Timers <= 0 || r.Delivered <= 0 && r.Lateness == nil {
				t.Errorf("measured %+v", r)
			}
		})
	}
	t.Run("chaos", func(t *testing.T) {
		t.Parallel()
		r, err := bench.Chaos(t.Context(), bench.Options{Rate: 100, Duration: 2 * time.Second, Bin: bin}, bench.KillService)
		if errors.Is(err, postgresd.ErrNotInstalled) && os.Getenv("TIMER_TEST_REQUIRE") == "" {
			t.Skip("SKIPPED: ", err)
		}
		if err != nil {
			t.Fatal(err)
		}
		if r.Timers < 100 || r.P99 <= 0 || r.Broken() {
			t.Errorf("measured %+v", r)
		}
	})
	t.Run("held", func(t *testing.T) {
		t.Parallel()
		opt := bench.Options{DBURL: pgtest.Server(t), Rate: 100, Bin: bin}
		all, err := bench.Held(t.Context(), opt, bench.HeldOptions{Clean: 2 * time.Second, Held: 3 * time.Second, Settle: time.Second, Deferred: 10})
		if err != nil {
			t.Fatal(err)
		}
		if len(all) != 2 {
			t.Fatalf("%d were measured, want the service and River", len(all))
		}
		for _, s := range all {
			if len(s.Late) != 4 || slices.Contains(s.Late, nil) {
				t.Errorf("measured %+v", s)
			}
		}
	})
}
