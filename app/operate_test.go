package app_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker/gochannel"
	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/timer"
)

// pollerCheck returns the check of the poller.
func pollerCheck(t *testing.T, a *app.App) app.Check {
	t.Helper()
	for _, c := range a.Checks(t.Context()) {
		if c.Part == "poller" {
			return c
		}
	}
	t.Fatal("no check of the poller")
	return app.Check{}
}

// TestForgetGoesOnWhereItEnded: a tenant with many timers, a caller who gives up, and
// another tenant that notices nothing.
func TestForgetGoesOnWhereItEnded(t *testing.T) {
	inBubbles(t, func(t *testing.T, b *bench) {
		a := b.serve(b.store, app.Options{})
		const many = 5000
		due := time.Now().Add(time.Hour)
		put(t, b.store, "giant", due, calls(many)...)
		b.schedule("small", due)
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), 35*time.Millisecond)
		defer cancel()
		first, err := a.Forget(short, "giant")
		if !errors.Is(err, context.DeadlineExceeded) || first.Scheduled == 0 || first.Scheduled == many {
			t.Errorf("a short one forgot %+v, %v", first, err)
		}
		rest, err := a.Forget(t.Context(), "giant")
		if err != nil || first.Add(rest) != (timer.Counts{Scheduled: many}) {
			t.Errorf("forgot %+v and %+v, %v", first, rest, err)
		}
		if again, err := a.Forget(t.Context(), "giant"); err != nil || again != (timer.Counts{}) {
			t.Errorf("forgot %+v, %v", again, err)
		}
		if e := b.next(); e.ServiceCallID != "small" || e.Lateness() != 0 {
			t.Errorf("%s fired %v late", e.Key, e.Lateness())
		}
		b.quietFor(time.Hour)
	})
}

// TestOneNodeOnAFile: an instance that has a file for itself is the only one.
func TestOneNodeOnAFile(t *testing.T) {
	inBubbles(t, func(t *testing.T, b *bench) {
		a := b.serve(b.store, app.Options{})
		nodes, err := a.Nodes(t.Context())
		if err != nil || len(nodes) != 1 {
			t.Fatalf("nodes %+v, %v", nodes, err)
		}
		if n := nodes[0]; !n.Self || n.ID == "" || n.Host == "" || n.PID == 0 || n.Started.IsZero() || n.Seen.Before(n.Started) {
			t.Errorf("node %+v", n)
		}
	})
}

// TestInstancesOnOneDatabase has two instances, on stores that a host has decorated. It pauses
// firing on one of them: the other one stops too, and goes on when it is resumed. Each knows
// both, and forgets one that has ended.
func TestInstancesOnOneDatabase(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	b := gochannel.New(gochannel.Options{}, quiet)
	running(t, "broker", b.Run)
	for b.Ready(t.Context()) != nil {
		runtime.Gosched()
	}
	var apps [2]*app.App
	var stops [2]func()
	var polls [2]atomic.Int64
	var stores [2]*postgres.Store
	for i := range apps {
		s, err := postgres.Open(t.Context(), url, postgres.Options{Durability: postgres.Relaxed, Version: name("v1.2.", i)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		if apps[i], err = app.New(struct{ app.Store }{s}, b, quiet, app.Options{PollingInterval: 100 * time.Millisecond, Hooks: app.Hooks{Polled: func(time.Duration, error) { polls[i].Add(1) }}}); err != nil {
			t.Fatal(err)
		}
		stores[i], stops[i] = s, running(t, "app", apps[i].Run)
		<-apps[i].Running()
	}
	eventually := func(what string, ok func() bool) {
		t.Helper()
		for late := time.After(30 * time.Second); !ok(); {
			select {
			case <-late:
				t.Fatalf("not within 30 s: %s", what)
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	known := func(i int) (nodes []timer.Node) {
		nodes, err := apps[i].Nodes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return nodes
	}
	for i := range apps {
		eventually("two nodes", func() bool { return len(known(i)) == 2 })
		for _, n := range known(i) {
			if n.Self != (n.Version == name("v1.2.", i)) || len(n.ID) != 8 || n.Host == "" || n.PID == 0 || time.Since(n.Started) > time.Minute || time.Since(n.Seen) > 10*time.Second {
				t.Errorf("node %+v of instance %d", n, i)
			}
		}
	}

	for _, p := range []timer.Pause{{By: "ops"}, {TenantID: "acme", By: "ops"}} {
		if err := apps[0].Pause(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		for i := range apps {
			eventually("paused", func() bool { return apps[i].Status().Poller.Paused[p.TenantID].By == "ops" })
		}
	}
	put(t, stores[0], "acme", time.Now(), "call")
	reached := func() bool {
		c, err := stores[0].Stats(t.Context(), "acme")
		if err != nil {
			t.Fatal(err)
		}
		return c.Reached == 1
	}
	polledTwice := func(while string) {
		t.Helper()
		for i := range apps {
			before := polls[i].Load()
			eventually("polled twice while "+while, func() bool { return polls[i].Load() > before+1 })
		}
	}
	polledTwice("all is paused")
	if reached() {
		t.Fatal("fired while paused")
	}
	if err := apps[1].Resume(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	polledTwice("the tenant is paused")
	if reached() {
		t.Fatal("fired while its tenant is paused")
	}
	if err := apps[1].Resume(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	eventually("fired", reached)
	eventually("resumed", func() bool { return len(apps[0].Status().Poller.Paused) == 0 })

	stops[1]()
	eventually("one node", func() bool { return len(known(0)) == 1 })
}
