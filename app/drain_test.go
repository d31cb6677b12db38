package app_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/internal/logbuf"
	"github.com/event-service-agent/timer-service/store/sqlite"
)

// TestStopForwardsWhatIsReached stops the app while the broker accepts no events.
func TestStopForwardsWhatIsReached(t *testing.T) {
	tests := []struct {
		name   string
		outage time.Duration // of publishes, from the stop on
		outbox int64         // events in the outbox after the stop
	}{
		{"the broker comes back within the limit", 3 * time.Second, 0},
		{"the broker stays away", time.Hour, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := new(unsteady)
			var down atomic.Bool
			down.Store(true)
			b.fails = func(op string) fault.Kind {
				if op == "publish" && down.Load() {
					return fault.Before
				}
				return fault.None
			}
			onUnsteady(t, b, app.Options{DrainTimeout: 10 * time.Second}, func(t *testing.T, _ *logbuf.Buffer, s *sqlite.Store, stop func()) {
				if n := reached(t, s, 100*time.Millisecond); n != 1 {
					t.Fatalf("%d fired, want 1", n)
				}
				began := time.Now()
				time.AfterFunc(tt.outage, func() { down.Store(false) })
				stop()
				if took := time.Since(began); took > 15*time.Second {
					t.Errorf("the stop took %v", took)
				}
				if stats, err := s.Stats(t.Context(), ""); err != nil || stats.Outbox != tt.outbox {
					t.Errorf("%d in the outbox, want %d: %v", stats.Outbox, tt.outbox, err)
				}
			})
		})
	}
}
