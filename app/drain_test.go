package app_test

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
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
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(48 * time.Hour) // bubbles begin with the year 2000, before which nothing may be due
				s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "timers.db"), sqlite.Options{Durability: sqlite.Relaxed})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				var down atomic.Bool
				down.Store(true)
				b := newSimBroker(1, func(op string) fault.Kind {
					if op == "publish" && down.Load() {
						return fault.Before
					}
					return fault.None
				})
				a, err := app.New(s, b, quiet, app.Options{DrainTimeout: 10 * time.Second})
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- a.Run(ctx) }()
				<-a.Running()
				time.Sleep(100 * time.Millisecond) // until it has caught up
				c := timer.ScheduleTimer{
					Key:     timer.Key{TenantID: "acme", ServiceCallID: "call"},
					Version: timer.Version{TimestampMS: time.Now().UnixMilli(), CommandID: "command"},
					DueAt:   time.Now(),
				}
				b.send(message.NewMessage(c.CommandID, envelope.Schedule(c)))
				synctest.Wait()
				began := time.Now()
				stop()
				time.AfterFunc(tt.outage, func() { down.Store(false) })
				if err := <-ended; err != nil {
					t.Errorf("Run: %v", err)
				}
				if took := time.Since(began); took > 15*time.Second {
					t.Errorf("the stop took %v", took)
				}
				stats, err := s.Stats(t.Context(), "")
				if err != nil {
					t.Fatal(err)
				}
				if stats.Reached != 1 || stats.Outbox != tt.outbox {
					t.Errorf("%d Reached and %d in the outbox, want 1 and %d", stats.Reached, stats.Outbox, tt.outbox)
				}
			})
		})
	}
}
