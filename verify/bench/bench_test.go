package bench_test

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
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

// TestMeasures runs each workload briefly: the figures mean nothing then,
// but that each timer fired once and not early is checked all the same.
func TestMeasures(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a broker and the service several times; left out by -short")
	}
	t.Parallel()
	dir := t.TempDir()
	bin, err := crash.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, opt := range map[string]bench.Options{
		"drain":                   {Timers: 2000, Lead: 10 * time.Second},
		"drain, synced, embedded": {Timers: 2000, Lead: 10 * time.Second, Embedded: true},
		"drain, a backlog":        {Timers: 2000, First: 3000, Lead: 10 * time.Second, Pending: 5000},
		"drain, Kafka":            {Timers: 2000, Lead: 10 * time.Second, Broker: crash.Kafka},
		"drain, RabbitMQ":         {Timers: 2000, Lead: 10 * time.Second, Broker: crash.RabbitMQ},
		"drain, PostgreSQL, two":  {Timers: 2000, Lead: 10 * time.Second, Store: database.Postgres, Instances: 2, Pending: 5000},
	} {
		opt.Dir, opt.Bin = dir, bin
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if opt.Store == database.Postgres {
				opt.DBURL = pgtest.Server(t)
			}
			r, err := bench.Drain(t.Context(), opt)
			if errors.Is(err, rabbitd.ErrNotInstalled) && os.Getenv("TIMER_TEST_REQUIRE") == "" {
				t.Skip("SKIPPED: ", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.Accepted <= 0 || r.Delivered <= 0 || r.IntakeCPU.Service+r.FiringCPU.Service <= 0 || r.PeakMiB <= 0 || r.Lateness == nil {
				t.Errorf("measured %+v", r)
			}
		})
	}
	t.Run("steady", func(t *testing.T) {
		t.Parallel()
		r, err := bench.Steady(t.Context(), bench.Options{Rate: 200, Duration: 2 * time.Second, Dir: dir, Bin: bin})
		if err != nil {
			t.Fatal(err)
		}
		if l := r.Lateness; l == nil || l.P50 <= 0 || l.P50 > l.P99 || l.P99 > l.Max {
			t.Errorf("lateness %+v", l)
		}
		var picture strings.Builder
		if err := bench.Draw(&picture, "lateness", r); err != nil {
			t.Fatal(err)
		}
		wellFormed(t, picture.String())
	})
	t.Run("chaos", func(t *testing.T) {
		t.Parallel()
		r, err := bench.Chaos(t.Context(), bench.Options{Rate: 100, Duration: 2 * time.Second, Dir: dir, Bin: bin}, bench.KillService)
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
		opt := bench.Options{DBURL: pgtest.Server(t), Rate: 100, Dir: dir, Bin: bin}
		all, err := bench.Held(t.Context(), opt, bench.HeldOptions{Clean: 2 * time.Second, Held: 3 * time.Second, Settle: time.Second, Deferred: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			if len(s.Late) != 4 || slices.Contains(s.Late, nil) {
				t.Errorf("measured %+v", s)
			}
		}
		if len(all) != 2 {
			t.Errorf("%d were measured, want the service and River", len(all))
		}
	})
	t.Run("growth", func(t *testing.T) {
		t.Parallel()
		some, err := bench.Growth(t.Context(), bench.Options{Rate: 200, Duration: time.Second, Dir: dir, Bin: bin}, []int{0, 3000}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(some) != 2 || some[1].Pending != 3000 || some[1].Costs == nil || some[1].Lateness == nil || len(some[1].Parts) == 0 {
			t.Errorf("measured %+v", some)
		}
	})
	for _, store := range []database.Kind{database.SQLite, database.Postgres} {
		t.Run("fairness, "+string(store), func(t *testing.T) {
			t.Parallel()
			opt := bench.Options{Store: store, Timers: 2000, Tenants: 100, Lead: 15 * time.Second, Dir: dir, Bin: bin}
			if store == database.Postgres {
				opt.DBURL = pgtest.Server(t)
			}
			r, err := bench.Fairness(t.Context(), opt)
			if err != nil {
				t.Fatal(err)
			}
			if r.Alone == nil || r.Alone.P50 <= 0 || r.Delivered <= 0 || r.Lateness != nil && r.Lateness.MarkedMax > r.Lateness.Max {
				t.Errorf("measured %+v", r)
			}
		})
	}
	t.Run("what makes no sense", func(t *testing.T) {
		for _, opt := range []bench.Options{{Broker: crash.Kafka, Embedded: true}, {Embedded: true, BrokerURL: "nats://x"}, {Instances: 2}} {
			if _, err := bench.Drain(t.Context(), opt); err == nil {
				t.Errorf("%+v was measured", opt)
			}
		}
	})
	t.Run("native", func(t *testing.T) {
		t.Parallel()
		if _, err := bench.Native(t.Context(), bench.Options{Timers: 500, Lead: 2 * time.Second, Dir: dir}); err != nil {
			t.Fatal(err)
		}
	})
}

// Peers have no service to build.
func TestMeasuresRiver(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for due times; left out by -short")
	}
	t.Parallel()
	opt := bench.Options{DBURL: pgtest.Server(t), Timers: 500, Rate: 100, Duration: 2 * time.Second}
	for _, measure := range []func(context.Context, bench.Options) (bench.Result, error){bench.River, bench.RiverSteady} {
		r, err := measure(t.Context(), opt)
		if err != nil {
			t.Fatal(err)
		}
		if r.Lateness == nil || r.Lateness.P50 <= 0 {
			t.Errorf("measured %+v", r)
		}
	}
}

func wellFormed(t *testing.T, text string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%v in %s", err, text)
		}
	}
}

func TestNothingToDraw(t *testing.T) {
	t.Parallel()
	if err := bench.Draw(io.Discard, "", bench.Result{}); err == nil {
		t.Error("drew a result without lateness")
	}
}
