package main

import (
	"regexp"
	"testing"
	"time"
)

// farFromNow matches how far a time is from now, which is another one in each run.
var farFromNow = regexp.MustCompile(`in \d+ (s|min|h|days)|\d+ (s|min|h|days) ago`)

// timeless returns a text with "<when>" instead.
func timeless(text string) string { return farFromNow.ReplaceAllString(text, "<when>") }

func TestRelativeTimesAreReadable(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "now", 400 * time.Millisecond: "now", -499 * time.Millisecond: "now", 600 * time.Millisecond: "in 1 s", 2990 * time.Millisecond: "in 3 s",
		-2 * time.Minute: "2 min ago", 59 * time.Second: "in 59 s", 59*time.Second + 600*time.Millisecond: "in 1 min",
		90 * time.Minute: "in 2 h", -47 * time.Hour: "47 h ago", 60 * time.Hour: "in 3 days", -800 * 24 * time.Hour: "800 days ago",
	} {
		if got := relative(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
