package app_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/timer"
)

// TestSlowBrokerDelaysNoOtherTenant has a tenant with many timers due at one instant,
// a broker that needs a second for each batch, and a small tenant whose timer is
// due later. Its event must not wait for all events of the other tenant.
func TestSlowBrokerGathersNoCrowd(t *testing.T) {
	t.Parallel()
	longtest.NotShort(t)
	const many = 20_000
	if _, err := migrated(); err != nil {
		t.Fatal(err)
	}
	path := t.TempDir() + "/timers.db"
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(48 * time.Hour) // bubbles begin with the year 2000, before which nothing may be due
		s := unsynced(t, path)
		defer s.DB().Close()
		defer s.Close()
		due := time.Now().Add(time.Minute)
		schedule := func(tenant timer.TenantID, due time.Time, calls int) {
			commands := make([]timer.ScheduleTimer, calls)
			for i := range commands {
				commands[i] = timer.ScheduleTimer{
					Key:     timer.Key{TenantID: tenant, ServiceCallID: timer.ServiceCallID(fmt.Sprint("call-", i))},
					Version: timer.Version{TimestampMS: 1, CommandID: fmt.Sprint(tenant, "-command-", i)},
					DueAt:   due,
				}
			}
			if _, err := s.Schedule(t.Context(), time.Now(), commands...); err != nil {
				t.Fatal(err)
			}
		}
		schedule("great", due, many)
		schedule("small", due.Add(3*time.Second), 1)
		b := newSimBroker(1, nil)
		b.delay = time.Second
		a, err := app.New(s, b, quiet, app.Options{})
		if err != nil {
			t.Fatal(err)
		}
		running(t, "app", a.Run)
		<-a.Running()
		seen, waited := 0, int64(0)
		var late time.Duration // of the small tenant's timer
		for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
			stats, err := s.Stats(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			waited = max(waited, stats.Outbox)
			events, _ := b.publishedSince(seen, 0)
			seen += len(events)
			for _, e := range events {
				if e.msg.Metadata.Get(envelope.HeaderTenantID) == "small" {
					late = e.at.Sub(due.Add(3 * time.Second))
				}
			}
			if stats.Reached == many+1 && stats.Outbox == 0 {
				break
			}
			if time.Since(began) > time.Hour {
				t.Fatalf("%+v after an hour", stats)
			}
		}
		if waited > 4000 {
			t.Errorf("%d events were in the outbox at a time", waited)
		}
		if late == 0 || late > 5*time.Second {
			t.Errorf("the event of the small tenant came %v late, with a broker that needs a second for each batch", late)
		}
	})
}
