package main

import (
	"strings"
	"testing"
	"time"
)

func TestProgressIsShownAtIntervals(t *testing.T) {
	t.Parallel()
	tests := []struct {
		terminal bool
		want     string
	}{
		{false, "101 dead letters, 20/s\n201 dead letters, 20/s\n"},
		{true, "\r\x1b[K"},
	}
	for _, tt := range tests {
		var stderr strings.Builder
		clock := noon
		p := newProgress(&env{stderr: &stderr, now: func() time.Time { return clock }}, "dead letters")
		p.terminal = tt.terminal
		p.clear() // there is nothing to clear
		for range 220 {
			p.add(1)
			clock = clock.Add(50 * time.Millisecond)
		}
		p.clear()
		got := stderr.String()
		if !tt.terminal && got != tt.want {
			t.Errorf("a log shows %q, want %q", got, tt.want)
		}
		if tt.terminal && (strings.Count(got, "\r\x1b[K") != 110 || strings.Contains(got, "\n") || !strings.HasSuffix(got, "letters, 20/s\r\x1b[K")) {
			t.Errorf("a terminal shows %q", got)
		}
	}
	var none *progress
	none.add(1)
	none.clear()
}
