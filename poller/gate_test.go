package poller

import (
	"log/slog"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// TestDueTimesAreForgottenByAPollerThatDoesNotRun: a program may only schedule, while another one
// runs.
func TestDueTimesAreForgottenByAPollerThatDoesNotRun(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	p := New(struct{ timer.Store }{}, timer.ClockFunc(func() time.Time { return now }), slog.New(slog.DiscardHandler), Options{})
	for range 100_000 {
		now = now.Add(10 * time.Millisecond)
		p.Booked(now)
	}
	if n := len(p.booked.times); n > 5000 {
		t.Errorf("%d due times are kept", n)
	}
}
