package admin_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// crowded returns a store with a million timers of a hundred tenants, with -short with ten
// thousand. Most are overdue, or due within the hour.
func crowded(b *testing.B) *sqlite.Store {
	const tenants, batch = 100, 1000
	batches := 1000
	if testing.Short() {
		batches = 10
	}
	store := database(b)
	now := time.Now()
	for i := range batches {
		commands := make([]timer.ScheduleTimer, batch)
		for j := range commands {
			n := i*batch + j
			c := command(fmt.Sprintf("tenant-%02d", n%tenants), fmt.Sprintf("order-%07d", n), now.Add(time.Duration(n-batches)*time.Second), int64(n+1))
			c.CorrelationID = fmt.Sprintf("req-%d", n%batches)
			commands[j] = c
		}
		if _, err := store.Schedule(b.Context(), now, commands...); err != nil {
			b.Fatal(err)
		}
	}
	return store
}

// BenchmarkReads measures each read of the API.
func BenchmarkReads(b *testing.B) {
	s := admin.New(quiet, admin.Options{Monitor: admin.NewMonitor(nil, quiet), Timers: crowded(b)})
	for _, target := range []string{
		"/v1/tenants/tenant-07/timers/order-0000007",
		"/v1/tenants/tenant-07/timers",
		"/v1/tenants/tenant-07/timers?limit=1000",
		"/v1/tenants/tenant-07/timers?state=Canceled",
		"/v1/tenants/tenant-07/timers?correlationId=none",
		"/v1/tenants/tenant-07/timers?state=Scheduled&dueBefore=2000-01-01T00:00:00Z",
		"/v1/timers?correlationId=req-7",
		"/v1/timers?dueWithin=1h",
		"/v1/tenants",
		"/v1/stats",
		"/v1/upcoming",
		"/v1/upcoming?intervals=240&width=6h",
		"/v1/upcoming?tenant=tenant-07",
		"/v1/parked",
		"/v1/firing",
	} {
		b.Run(target[1:], func(b *testing.B) {
			for b.Loop() {
				if code, body := get(s, target); code != 200 {
					b.Fatal(code, body)
				}
			}
		})
	}
}

// BenchmarkPages measures each page of the dashboard.
func BenchmarkPages(b *testing.B) {
	store := crowded(b)
	s := admin.New(quiet, admin.Options{Monitor: admin.NewMonitor(nil, quiet), Timers: store, Broker: channel(b), History: admin.NewHistory(new(app.Counters), store.Stats)})
	for _, target := range []string{
		"/", "/timers", "/timers?tenant=tenant-07", "/timers?tenant=tenant-07&state=Reached", "/timer?tenant=tenant-07&call=order-0000007",
		"/search?q=req-7", "/tenants", "/parked", "/dead-letters",
	} {
		b.Run(target, func(b *testing.B) {
			for b.Loop() {
				if code, body := get(s, target); code != 200 {
					b.Fatal(code, body)
				}
			}
		})
	}
}
