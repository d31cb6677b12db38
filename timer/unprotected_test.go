package timer_test

import (
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

func TestUnprotectedInWords(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for want, u := range map[string]timer.Unprotected{
		"not known yet": {Timers: 1},
		"backup only: the broker keeps nothing that was read":  {At: noon, Timers: 1},
		"of all timers that wait (since 2026-01-02T12:00:00Z)": {At: noon, Before: noon},
		"too many to look at all":                              {At: noon, Before: noon, More: true},
		"timers older than the messages that the broker still has (since 2026-01-02T12:00:00Z): 7; the oldest is of 2026-01-02T11:00:00Z; only a backup protects them": {At: noon, Before: noon, Timers: 7, Oldest: noon.Add(-time.Hour)},
		": 7 or more; ": {At: noon, Before: noon, Timers: 7, More: true},
	} {
		if got := u.String(); !strings.Contains(got, want) {
			t.Errorf("%+v: %q, want %q", u, got, want)
		}
	}
}
