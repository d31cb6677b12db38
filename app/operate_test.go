package app_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker/gochannel"
	"github.com/event-service-agent/timer-service/envelope"
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

// TestAPauseOfAnHour: commands are taken, nothing fires, also after a restart; then
// everything does, late, and counted as such.
func TestAPauseOfAnHour(t *testing.T) {
	inBubbles(t, func(t *testing.T, b *bench) {
		counters := new(app.Counters)
		a, stop := b.serveUntil(b.store, app.Options{Counters: counters})
		began := time.Now()
		b.schedule("before", began.Add(time.Minute))
		synctest.Wait()
		if err := a.Pause(t.Context(), timer.Pause{By: "ops"}); err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			b.schedule(fmt.Sprint("during-", i), began.Add(time.Duration(i)*time.Minute))
		}
		b.quietFor(30 * time.Minute)
		want := "firing is paused since " + began.UTC().Format(time.RFC3339) + " by ops"
		if c := pollerCheck(t, a); c.Red || c.Reason != want || c.Advice == "" {
			t.Errorf("check %+v, want %q", c, want)
		}
		if n, err := b.store.Stats(t.Context(), "acme"); err != nil || n.Scheduled != 21 {
			t.Errorf("counts %+v, %v", n, err)
		}
		stop()
		a = b.serve(b.store, app.Options{Counters: counters})
		b.quietFor(30*time.Minute - time.Since(began)%time.Minute)

		if t.Failed() {
			return
		}
		resumed := time.Now()
		if err := a.Resume(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		for range 21 {
			if e := b.next(); e.Lateness() < 30*time.Minute || e.ReachedAt.Sub(resumed) > 50*time.Millisecond {
				t.Errorf("%s fired %v late, %v after firing was resumed", e.Key, e.Lateness(), e.ReachedAt.Sub(resumed))
			}
		}
		synctest.Wait()
		if l := counters.Lateness(); l.Events != 21 || l.Max < 50*time.Minute {
			t.Errorf("lateness %+v", l)
		}
		if c := pollerCheck(t, a); c.Reason != "" {
			t.Errorf("check %+v", c)
		}
	})
}

// TestARetriedEventGoesOutAtOnce, without waiting for the next poll of the outbox.
func TestARetriedEventGoesOutAtOnce(t *testing.T) {
	inBubbles(t, func(t *testing.T, b *bench) {
		a := b.serve(b.store, app.Options{PollingInterval: time.Hour})
		at := time.Now().UTC()
		e := timer.DueTimeReached{Key: timer.Key{TenantID: "acme", ServiceCallID: "call"}, CommandID: "c", DueAt: at, ReachedAt: at}
		if err := b.store.Update(t.Context(), func(tx timer.Tx) error { return tx.Emit(t.Context(), e) }); err != nil {
			t.Fatal(err)
		}
		rows, err := b.store.Head(t.Context(), 0, 10)
		if err != nil || len(rows) != 1 {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		if err := b.store.Park(t.Context(), at, rows[0].Place, "refused"); err != nil {
			t.Fatal(err)
		}
		b.quietFor(time.Minute)
		began := time.Now()
		if n, err := a.Retry(t.Context(), rows[0].Seq, 77); n != 1 || err != nil {
			t.Errorf("retried %d, %v", n, err)
		}
		if got := b.next(); got.ID != envelope.EventID(e) || time.Since(began) > 50*time.Millisecond {
			t.Errorf("%s after %v", got.ID, time.Since(began))
		}
	})
}

// TestForgetGoesOnWhereItEnded: a tenant with many timers, a caller who gives up, and
// another tenant that notices nothing.
func TestForgetGoesOnWhereItEnded(t *testing.T) {
	inBubbles(t, func(t *testing.T, b *bench) {
		a := b.serve(b.store, app.Options{})
		const many = 5000
		due := time.Now().Add(time.Hour)
		commands := make([]timer.ScheduleTimer, many)
		for i := range commands {
			commands[i] = timer.ScheduleTimer{
				Key:     timer.Key{TenantID: "giant", ServiceCallID: timer.ServiceCallID(fmt.Sprint("call-", i))},
				Version: timer.Version{TimestampMS: 1, CommandID: "c"}, DueAt: due,
			}
		}
		if _, err := b.store.Schedule(t.Context(), time.Now(), commands...); err != nil {
			t.Fatal(err)
		}
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

// TestInstancesOnOneDatabase pauses firing on one instance: the other stops too, and
// goes on when it is resumed. Each knows both, and forgets one that has ended.
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
		if apps[i], err = app.New(s, b, quiet, app.Options{PollingInterval: 100 * time.Millisecond, Hooks: app.Hooks{Polled: func(time.Duration, error) { polls[i].Add(1) }}}); err != nil {
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
	if _, err := stores[0].Schedule(t.Context(), time.Now(), timer.ScheduleTimer{
		Key: timer.Key{TenantID: "acme", ServiceCallID: "call"}, Version: timer.Version{TimestampMS: 1, CommandID: "c"}, DueAt: time.Now(),
	}); err != nil {
		t.Fatal(err)
	}
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

// TestPausesKeepTheInvariants has people pause and resume firing between all that
// happens in TestInvariants: nothing fires meanwhile, and nothing is lost.
func TestPausesKeepTheInvariants(t *testing.T) {
	t.Parallel()
	if _, err := migrated(); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		history := rapid.SliceOfN(steps(), 8, 25).Draw(rt, "history")
		toggles := rapid.SliceOfN(rapid.IntRange(0, 7), len(history), len(history)).Draw(rt, "pause or resume before each step")
		seed := rapid.Uint64().Draw(rt, "seed")
		oneIn := rapid.SampledFrom([]int{0, 20, 5}).Draw(rt, "one call in … fails")
		var broken error
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(48 * time.Hour) // bubbles begin with the year 2000, before which nothing may be due
			w := newWorld(t, seed, oneIn, app.Options{BatchSize: 3})
			w.start()
			defer w.stop()
			for i, s := range history {
				switch toggles[i] {
				case 0:
					w.pause("", true)
				case 1:
					w.pause("", false)
				case 2, 3:
					w.pause("tenant-0", toggles[i] == 2)
				}
				before, paused := w.fires()
				if broken = w.once(i, s); broken != nil {
					break
				}
				after, still := w.fires()
				for tenant, n := range after {
					if now := time.Now(); paused.Of(tenant, now).Paused() && still.Of(tenant, now).Paused() && n != before[tenant] {
						broken = fmt.Errorf("%d timers of %s fired in step %d while firing was paused", n-before[tenant], tenant, i)
					}
				}
				if broken != nil {
					break
				}
			}
			w.failures.heal()
			w.pause("", false)
			w.pause("tenant-0", false)
			if broken == nil {
				broken = w.settle(20 * time.Minute)
			}
		})
		if broken != nil {
			rt.Fatal(broken)
		}
	})
}

// pause pauses or resumes firing of a tenant, or of all, however often that fails, and waits
// until the service knows it.
func (w *world) pause(tenant timer.TenantID, on bool) {
	for range 20 {
		err := w.app.Resume(w.t.Context(), tenant)
		if on {
			err = w.app.Pause(w.t.Context(), timer.Pause{TenantID: tenant, By: "ops"})
		}
		if err == nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(time.Second)
	synctest.Wait()
}

// fires returns how many timers of each tenant have fired, and whose firing is paused.
func (w *world) fires() (map[timer.TenantID]int64, timer.Pauses) {
	fired := make(map[timer.TenantID]int64)
	for _, tenant := range []timer.TenantID{"tenant-0", "tenant-1"} {
		stats, err := w.store.Stats(w.t.Context(), tenant)
		if err != nil {
			w.t.Error(err)
		}
		fired[tenant] = stats.Reached
	}
	p, err := w.store.Firing(w.t.Context(), time.Now())
	if err != nil {
		w.t.Error(err)
	}
	return fired, p
}
