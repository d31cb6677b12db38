package retry_test

import (
	"slices"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/internal/retry"
)

// TestDelaysGrowUpToTheLongest without jitter.
func TestDelaysGrowUpToTheLongest(t *testing.T) {
	t.Parallel()
	p := retry.Policy{First: time.Second, Factor: 5, Longest: 30 * time.Second}
	var got []time.Duration
	for _, failures := range []int{-1, 0, 1, 2, 3, 4, 1 << 40} {
		got = append(got, p.After(failures))
	}
	want := []time.Duration{time.Second, time.Second, time.Second, 5 * time.Second, 25 * time.Second, 30 * time.Second, 30 * time.Second}
	if !slices.Equal(got, want) {
		t.Errorf("delays %v, want %v", got, want)
	}
}

// TestJitterMakesADelayShorter, never longer, and by no more than its part.
func TestJitterMakesADelayShorter(t *testing.T) {
	t.Parallel()
	p := retry.Policy{First: time.Second, Factor: 2, Longest: time.Minute, Jitter: 0.2}
	different := make(map[time.Duration]bool)
	for range 1000 {
		d := p.After(1)
		if d < 800*time.Millisecond || d > time.Second {
			t.Fatalf("delay %v, want 0.8 s to 1 s", d)
		}
		different[d] = true
	}
	if len(different) < 900 {
		t.Errorf("%d different delays of 1000", len(different))
	}
}
