package app_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/logbuf"
	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/store/sqlite"
)

// TestSlowBrokerDelaysNoOtherTenant has a tenant with many timers due at one instant,
// a broker that needs a second for each batch, and a small tenant whose timer is
// due later. Its event must not wait for all events of the other tenant.
func TestSlowBrokerDelaysNoOtherTenant(t *testing.T) {
	longtest.NotShort(t)
	b := &unsteady{delay: time.Second}
	onUnsteady(t, b, app.Options{}, func(t *testing.T, _ *logbuf.Buffer, s *sqlite.Store, _ func()) {
		due := time.Now().Add(time.Minute)
		put(t, s, "great", due, calls(20_000)...)
		put(t, s, "small", due.Add(3*time.Second), "call")
		waited := int64(0)
		for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
			synctest.Wait()
			stats, err := s.Stats(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			waited = max(waited, stats.Outbox)
			if stats.Scheduled == 0 && stats.Outbox == 0 {
				break
			}
			if time.Since(began) > time.Hour {
				t.Fatalf("%+v after an hour", stats)
			}
		}
		if waited > 4000 {
			t.Errorf("%d events were in the outbox at a time", waited)
		}
		var late time.Duration // of the small tenant's timer
		events, _ := b.publishedSince(0, 0)
		for _, e := range events {
			if e.msg.Metadata.Get(envelope.HeaderTenantID) == "small" {
				late = e.at.Sub(due.Add(3 * time.Second))
			}
		}
		if late == 0 || late > 5*time.Second {
			t.Errorf("the event of the small tenant came %v late, with a broker that needs a second for each batch", late)
		}
	})
}
