package telemetry

import (
	"math"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// A histogram counts durations in milliseconds, with buckets of fixed bounds and with
// exponential ones at once. It is a tenth of the cost of an instrument of the SDK,
// which a service that fires a hundred thousand timers a second pays for each.
type histogram struct {
	name, about string

	mu       sync.Mutex
	count    uint64
	zero     uint64
	sum      float64
	max      float64
	fixed    [maxFixed + 1]uint64
	powers   [maxPowers]uint64
	last     int64 // milliseconds that were counted last, and where
	inFixed  int
	inPowers int
}

// Exponential buckets: 2^scale of them double the bound. They go from 2^-10 s, a
// millisecond, to 2^18 s, three days.
const (
	scale     = 3
	perDouble = 1 << scale
	maxPowers = 28*perDouble + 1
	firstPow  = -10 * perDouble // index of the bucket that a millisecond is in: from 2^-10 s
	maxFixed  = 18
)

// bounds are the upper bounds of the fixed buckets but the last, in seconds.
var bounds = []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 300, 1800, 3600}

// add counts durations. Of returns the n-th of them, or false for one that is not known.
func (h *histogram) add(n int, of func(int) (time.Duration, bool)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range n {
		if d, ok := of(i); ok {
			h.record(max(0, d.Milliseconds()))
		}
	}
}

func (h *histogram) record(ms int64) {
	h.count++
	if ms == 0 {
		h.zero++
		h.fixed[0]++
		return
	}
	if ms != h.last {
		seconds := float64(ms) / 1000
		h.last = ms
		h.inFixed, _ = slices.BinarySearch(bounds, seconds)
		h.inPowers = min(max(power(seconds)-firstPow, 0), maxPowers-1)
	}
	h.fixed[h.inFixed]++
	h.powers[h.inPowers]++
	h.sum += float64(ms) / 1000
	h.max = max(h.max, float64(ms)/1000)
}

// power returns the index of the bucket (2^(i/8), 2^((i+1)/8)] that a number is in.
func power(seconds float64) int { return int(math.Ceil(math.Log2(seconds)*perDouble)) - 1 }

// produce returns both histograms.
func (h *histogram) produce(began, now time.Time) []metricdata.Metrics {
	h.mu.Lock()
	defer h.mu.Unlock()
	highest := metricdata.NewExtrema(h.max)
	first, last := 0, len(h.powers)
	for first < last && h.powers[first] == 0 {
		first++
	}
	for last > first && h.powers[last-1] == 0 {
		last--
	}
	return []metricdata.Metrics{
		{Name: h.name, Description: h.about, Unit: "s", Data: metricdata.Histogram[float64]{
			Temporality: metricdata.CumulativeTemporality,
			DataPoints: []metricdata.HistogramDataPoint[float64]{{
				StartTime: began, Time: now, Count: h.count, Sum: h.sum, Max: highest, Bounds: bounds, BucketCounts: slices.Clone(h.fixed[:]),
			}},
		}},
		{Name: h.name + ".native", Description: h.about + " With exponential buckets.", Unit: "s", Data: metricdata.ExponentialHistogram[float64]{
			Temporality: metricdata.CumulativeTemporality,
			DataPoints: []metricdata.ExponentialHistogramDataPoint[float64]{{
				StartTime: began, Time: now, Count: h.count, Sum: h.sum, Max: highest, Scale: scale, ZeroCount: h.zero,
				PositiveBucket: metricdata.ExponentialBucket{Offset: int32(firstPow + first), Counts: slices.Clone(h.powers[first:last])}, //nolint:gosec // small
			}},
		}},
	}
}
