package admin

import (
	"testing"
	"time"
)

func TestTimesInWords(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		0: "0 ms", 1: "below 1 ms", 12 * time.Millisecond: "12 ms", time.Second: "1 s", 36*time.Second + 49*time.Millisecond: "36 s", 1500 * time.Millisecond: "1.5 s",
		59999 * time.Millisecond: "59.9 s", time.Minute: "1 min", 61 * time.Second: "1 min 1 s", 2 * time.Hour: "2 h", 47*time.Hour + time.Minute: "47 h 1 min",
		2 * day: "2 d", 3*day + 4*time.Hour: "3 d 4 h", 200*day + time.Hour: "200 d", 10 * 365 * day: "10.0 years", -time.Second: "-1 s",
	} {
		if got := span(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for at, want := range map[time.Time]string{{}: "", now: "0 ms ago", now.Add(time.Minute): "in 1 min", now.Add(-90*time.Second - 1): "1 min 30 s ago"} {
		if got := ago(at, now); got != want {
			t.Errorf("%v is %q, want %q", at, got, want)
		}
	}
}
