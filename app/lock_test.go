package app_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/timer"
)

// TestNoTimerFiresBehindAHostsLock has transactions of a host lock timers before they may fire,
// and for longer. Cancellations that arrive meanwhile take effect before the poller can have
// the timers, whenever the transactions end. Firing is paused until all have met their locks,
// since a busy machine may take seconds for that.
func TestNoTimerFiresBehindAHostsLock(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, b := openPostgres(t, url, ""), inMemory(t)
	a, err := app.New(s, b, quiet, app.Options{PollingInterval: 10 * time.Millisecond})
	must(t, err)
	running(t, "app", a.Run)
	<-a.Running()
	must(t, a.Pause(t.Context(), timer.Pause{By: "test"}))
	send := func(body []byte) {
		t.Helper()
		must(t, broker.Join(b.Publisher().Publish(t.Context(), broker.Message{Topic: b.Routing().CommandsOf("acme"), Message: message.NewMessage(uuid.NewString(), body)})))
	}
	key := func(i int) timer.Key {
		return timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(fmt.Sprint("locked-", i))}
	}
	const timers = 8
	due := time.Now().Add(time.Second)
	for i := range timers {
		send(envelope.Schedule(timer.ScheduleTimer{Key: key(i), DueAt: due, Version: timer.Version{TimestampMS: due.UnixMilli() - 1000, CommandID: fmt.Sprint("schedule-", i)}}))
	}
	eventually(t, "all are stored", func() bool {
		stats, err := s.Timers().Stats(t.Context(), "acme")
		must(t, err)
		return stats.Scheduled == timers
	})
	var hosts sync.WaitGroup
	resumed := make(chan struct{})
	for i := range timers {
		tx, err := s.DB().BeginTx(t.Context(), nil)
		must(t, err)
		_, err = tx.ExecContext(t.Context(), `SELECT FROM timer_schedules WHERE service_call_id = $1 FOR UPDATE`, string(key(i).ServiceCallID))
		must(t, err)
		hosts.Go(func() {
			<-resumed
			<-time.After(time.Until(due) + time.Second + rand.N(4*time.Second))
			if err := tx.Rollback(); err != nil {
				t.Error(err)
			}
		})
		send(envelope.Cancel(timer.CancelTimer{Key: key(i), Version: timer.Version{TimestampMS: due.UnixMilli(), CommandID: fmt.Sprint("cancel-", i)}}))
	}
	eventually(t, "all cancellations have met a lock", func() (met bool) {
		must(t, s.DB().QueryRowContext(t.Context(), `SELECT count(*) = $1 FROM timer_awaited`, timers).Scan(&met))
		return met
	})
	must(t, a.Resume(t.Context(), ""))
	close(resumed)
	hosts.Wait()
	eventually(t, "none waits", func() bool {
		stats, err := s.Timers().Stats(t.Context(), "acme")
		must(t, err)
		return stats.Scheduled == 0
	})
	stats, err := s.Timers().Stats(context.WithoutCancel(t.Context()), "acme")
	must(t, err)
	if stats.Canceled != timers || stats.Reached != 0 {
		t.Errorf("%d canceled, %d reached, want all canceled", stats.Canceled, stats.Reached)
	}
}
