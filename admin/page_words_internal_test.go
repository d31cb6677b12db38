package admin

import (
	"testing"
	"time"
)

func TestTimesInWords(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		1: "0s", 12*time.Millisecond + 1: "12ms", 1500 * time.Millisecond: "1.5s", 59999 * time.Millisecond: "59.9s", 61*time.Second + 1: "1m1s",
		47*time.Hour + time.Minute + 1: "47h1m", 3*day + 4*time.Hour: "3d", -time.Second: "-1s",
	} {
		if got := span(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for at, want := range map[time.Time]string{{}: "", now: "0s ago", now.Add(time.Minute): "in 1m", now.Add(-90*time.Second - 1): "1m30s ago"} {
		if got := ago(at, now); got != want {
			t.Errorf("%v is %q, want %q", at, got, want)
		}
	}
}
