package app_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker/gochannel"
	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/timer"
)

// TestDecoratedStoresShareTheOutbox runs three instances on one database, each on
// a store that a host has decorated. What a decorated store can do is part of its
// type: it owns a shard as the store in it does, so each event is published once.
func TestDecoratedStoresShareTheOutbox(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	b := gochannel.New(gochannel.Options{}, quiet)
	running(t, "broker", b.Run)
	for b.Ready(t.Context()) != nil {
		runtime.Gosched()
	}
	events, err := b.Tail().Subscribe(t.Context(), b.Routing().EventsOf("acme"))
	if err != nil {
		t.Fatal(err)
	}
	const instances, timers = 3, 300
	var stores [instances]*postgres.Store
	for i := range stores {
		if stores[i], err = postgres.Open(t.Context(), url, postgres.Options{Durability: postgres.Relaxed}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = stores[i].Close() })
	}
	commands := make([]timer.ScheduleTimer, timers)
	for i := range commands {
		commands[i] = timer.ScheduleTimer{
			Key:     timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(name("call-", i))},
			Version: timer.Version{TimestampMS: 1, CommandID: name("command-", i)},
			DueAt:   time.Now(),
		}
	}
	if _, err := stores[0].Schedule(t.Context(), time.Now(), commands...); err != nil {
		t.Fatal(err)
	}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var apps sync.WaitGroup
	for _, s := range stores {
		a, err := app.New(struct{ app.Store }{s}, b, quiet, app.Options{BatchSize: 10})
		if err != nil {
			t.Fatal(err)
		}
		apps.Go(func() {
			if err := a.Run(ctx); err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
	seen := make(map[string]int)
	late := time.After(time.Minute)
	for len(seen) < timers {
		select {
		case msg := <-events:
			seen[msg.UUID]++
			msg.Ack()
		case <-late:
			t.Fatalf("%d of %d events in a minute", len(seen), timers)
		}
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stop()
		apps.Wait() // what is in the outbox was published then
	}()
	for done := false; !done; {
		select {
		case msg := <-events:
			seen[msg.UUID]++
			msg.Ack()
		case <-stopped:
			done = true
		}
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("event %s was published %d times", id, n)
		}
	}
}
