package bench_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/verify/bench"
)

func TestMedians(t *testing.T) {
	t.Parallel()
	late := func(p50 float64) *bench.Lateness { return &bench.Lateness{P50: p50} }
	results := []bench.Result{
		{Workload: "drain", Setup: "a", Accepted: 3, Timers: 10, Lateness: late(1)},
		{Workload: "drain", Setup: "b", Accepted: 1, Timers: 10, Lateness: late(1)},
		{Workload: "drain", Setup: "a", Accepted: 100, Timers: 10, Lateness: late(9)},
		{Workload: "drain", Setup: "b", Accepted: 2, Timers: 12},
		{Workload: "drain", Setup: "a", Accepted: 2, Timers: 10, Lateness: late(2)},
		{Workload: "drain", Setup: "once", Accepted: 2, Timers: 10},
	}
	want := []bench.Result{
		{Workload: "drain", Setup: "a", Accepted: 3, Timers: 10, Lateness: late(2), Runs: 3},
		{Workload: "drain", Setup: "b", Accepted: 1.5, Timers: 11, Runs: 2},
	}
	if d := cmp.Diff(want, bench.Medians(results)); d != "" {
		t.Error(d)
	}
}
