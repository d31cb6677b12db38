package telemetry_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/gochannel"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/telemetry"
	"github.com/event-service-agent/timer-service/timer"
)

// served returns the telemetry of a service that has fired a timer, refused a command,
// and delayed one over a quota.
func served(t *testing.T) *telemetry.Telemetry {
	t.Helper()
	quiet, counters := slog.New(slog.DiscardHandler), new(app.Counters)
	tel, err := telemetry.New(t.Context(), "test", counters)
	must(t, err)
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "timers.db"), sqlite.Options{})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	b := gochannel.New(gochannel.Options{}, quiet)
	quotas, err := quota.New(quota.Config{Tenants: map[timer.TenantID]quota.Limits{"flood": {Live: 1}}}, timer.ClockFunc(time.Now), quota.Options{})
	must(t, err)
	hosted, err := app.New(s, nil, quiet, app.Options{Counters: counters}) // does not run
	must(t, err)
	hosted.Timers().OnDue("order-", func(context.Context, timer.DueTimeReached) error { return nil }, app.OnDueOptions{})
	a, err := app.New(s, b, quiet, app.Options{Counters: counters, Hooks: []app.Hooks{tel.Hooks()}, Quotas: quotas})
	must(t, err)
	var checks []app.Check
	must(t, tel.Observe(telemetry.Sources{
		Stats: s.Stats, Status: a.Status, Instances: func() int { return 1 }, Recovery: a.Recovery, Checks: func() []app.Check { return checks },
		Inbox:       s.Inbox().InboxCounts,
		Upcoming:    s.Upcoming,
		Full:        func() telemetry.Limit { return telemetry.Limit{Name: "max_bytes", Used: 0.5} },
		Disk:        func() float64 { return 0.25 },
		Log:         func() int64 { return 4096 },
		Unprotected: func() timer.Unprotected { return timer.Unprotected{At: time.Now()} },
		Backups:     func() telemetry.Backups { return telemetry.Backups{Every: time.Hour} },
	}))
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = b.Run(ctx) })
	running.Go(func() { _ = a.Run(ctx) })
	defer running.Wait() // then all hooks have returned
	defer stop()
	<-a.Running()
	for b.Ready(ctx) != nil { // which it does not wait for
		runtime.Gosched()
	}
	events, err := b.Tail().Subscribe(ctx, b.Routing().EventsOf("acme"))
	must(t, err)
	publish := func(tenant timer.TenantID, body []byte) {
		must(t, broker.NewWatermillPublisher(b.Publisher()).Publish(b.Routing().CommandsOf(tenant), message.NewMessage(rand.Text(), body)))
	}
	schedule := func(tenant timer.TenantID, call timer.ServiceCallID, due time.Time) {
		publish(tenant, envelope.Schedule(timer.ScheduleTimer{
			Key:     timer.Key{TenantID: tenant, ServiceCallID: call},
			Version: timer.Version{TimestampMS: time.Now().UnixMilli(), CommandID: "command-" + string(call)}, DueAt: due,
		}))
	}
	schedule("acme", "call-1", time.Now())
	(<-events).Ack()
	publish("acme", []byte("no envelope"))
	schedule("flood", "call-1", time.Now().Add(time.Hour))
	schedule("flood", "call-2", time.Now().Add(time.Hour))
	happened := func() bool {
		outcomes := make(map[string]bool)
		for r := range counters.Commands() {
			outcomes[r.Outcome] = true
		}
		return counters.Forwarded() > 0 && outcomes[handlers.OutcomeInvalid] && outcomes[handlers.OutcomeOverQuota]
	}
	for !happened() {
		runtime.Gosched()
	}
	checks = a.Checks(ctx)
	return tel
}
