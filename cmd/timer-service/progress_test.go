package main

import (
	"strings"
	"testing"
	"time"
)

func TestProgressIsShownAtIntervals(t *testing.T) {
	t.Parallel()
	var stderr strings.Builder
	clock := noon
	p := newProgress(&env{stderr: &stderr, now: func() time.Time { return clock }}, "timers")
	for range 220 {
		p.add(1)
		clock = clock.Add(50 * time.Millisecond)
	}
	if got := stderr.String(); got != "101 timers, 20/s\n201 timers, 20/s\n" {
		t.Errorf("shows %q", got)
	}
}
