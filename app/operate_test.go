package app_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/timer"
)

// TestForgetGoesOnWhereItEnded: a tenant with many timers, a caller who gives up, and
// another tenant that notices nothing.
func TestForgetGoesOnWhereItEnded(t *testing.T) {
	onBrokers(t, func(b *bench) {
		a, _ := b.serve(app.Options{})
		const many = 5000
		due := time.Now().Add(time.Hour)
		put(b, b.store, "giant", due, calls(many)...)
		b.schedule("small", due)
		synctest.Wait()
		short, cancel := context.WithTimeout(b.Context(), 35*time.Millisecond)
		defer cancel()
		first, err := a.Forget(short, "giant")
		if !errors.Is(err, context.DeadlineExceeded) || first.Scheduled == 0 || first.Scheduled == many {
			b.Errorf("a short one forgot %+v, %v", first, err)
		}
		for _, want := range []timer.Counts{{Scheduled: many - first.Scheduled}, {}} {
			if got, err := a.Forget(b.Context(), "giant"); err != nil || got != want {
				b.Errorf("forgot %+v, %v, want %+v", got, err, want)
			}
		}
		if e := b.next(); e.ServiceCallID != "small" || e.Lateness() != 0 {
			b.Errorf("%s fired %v late", e.Key, e.Lateness())
		}
		b.quietFor(time.Hour)
		nodes, err := a.Nodes(b.Context())
		if err != nil || len(nodes) != 1 || !nodes[0].Self || nodes[0].ID == "" || nodes[0].Host == "" || nodes[0].PID == 0 || nodes[0].Seen.Before(nodes[0].Started) {
			b.Errorf("nodes %+v, %v, want the only one that a file has", nodes, err)
		}
	})
}

// TestRefirePublishesWhatABrokerHasLost removes events from a NATS server that remembers
// their ids, publishes them again, and once more after a restart.
func TestRefirePublishesWhatABrokerHasLost(t *testing.T) {
	onServer(t, func(b *server) {
		a, stop := b.serve(app.Options{})
		began := time.Now()
		for i := range 5 {
			b.schedule(fmt.Sprint("call-", i), began.Add(time.Duration(5-i)*time.Second))
		}
		b.schedule("waits", began.Add(time.Hour))
		b.schedule("canceled", began.Add(time.Hour))
		b.rest()
		b.cancel("canceled")
		if got := b.fired(10 * time.Second); got != "call-4 call-3 call-2 call-1 call-0" {
			b.Fatalf("fired %s", got)
		}
		b.streams(func(js jetstream.JetStream, name string) error {
			stream, err := js.Stream(b.Context(), name)
			if err == nil {
				err = stream.Purge(b.Context())
			}
			return err
		})
		did, err := a.Refire(b.Context(), timer.Refire{TenantID: "acme", Since: began.Add(2 * time.Second)})
		if err != nil || did.Events != 4 || did.Next != "" {
			b.Errorf("%+v, %v", did, err)
		}
		if got := b.fired(10 * time.Second); got != "call-3 call-2 call-1 call-0" {
			b.Errorf("published again: %s", got)
		}
		stop()
		b.serve(app.Options{})
		b.quietFor(20 * time.Second)
	})
}

// TestRefireSelects by tenant, by prefix and by time, in the order in which timers fired.
func TestRefireSelects(t *testing.T) {
	onBrokers(t, func(b *bench) {
		counters := new(app.Counters)
		a, _ := b.serve(app.Options{Counters: counters, Retention: 24 * time.Hour})
		began := timer.RoundUp(time.Now())
		ids := make(map[timer.ServiceCallID]string)
		for i := range 6 {
			b.schedule(fmt.Sprint(string("ab"[i%2]), "-", 5-i), began.Add(time.Duration(i+1)*time.Second))
		}
		put(b, b.store, "other", began, "a-0")
		for range 7 {
			e := b.next()
			ids[e.ServiceCallID] = e.ID
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		late := counters.Lateness()
		for _, test := range []struct {
			which timer.Refire
			want  string
			all   int
		}{
			{timer.Refire{Since: began}, "a-0 a-5 b-4 a-3 b-2 a-1 b-0", 7},
			{timer.Refire{TenantID: "acme", Since: began}, "a-5 b-4 a-3 b-2 a-1 b-0", 6},
			{timer.Refire{TenantID: "acme", Prefix: "b-", Since: began}, "b-4 b-2 b-0", 3},
			{timer.Refire{TenantID: "acme", Since: began.Add(2 * time.Second), Until: began.Add(4 * time.Second)}, "b-4 a-3", 2},
			{timer.Refire{TenantID: "none", Since: began}, "", 0},
			{timer.Refire{Since: began.Add(time.Minute)}, "", 0},
			{timer.Refire{Since: began, DryRun: true}, "", 7},
		} {
			did, err := a.Refire(b.Context(), test.which)
			if err != nil || did.Events != test.all || len(did.First) != test.all || did.Next != "" || !did.CompleteFrom.Equal(timer.RoundUp(time.Now().Add(-24*time.Hour))) {
				b.Errorf("%+v: %+v, %v", test.which, did, err)
			}
			events := make([]timer.DueTimeReached, len(strings.Fields(test.want)))
			for i := range events {
				events[i] = b.next()
			}
			// On NATS each tenant has a topic, and other's event may come at any time.
			slices.SortStableFunc(events, func(a, b timer.DueTimeReached) int { return strings.Compare(string(b.TenantID), string(a.TenantID)) })
			for i, call := range strings.Fields(test.want) {
				if e := events[i]; string(e.ServiceCallID) != call || e.ID != ids[e.ServiceCallID] || e.ReachedAt.After(began.Add(10*time.Second)) {
					b.Errorf("%+v: got %+v, want %s with the id %s", test.which, e, call, ids[e.ServiceCallID])
				}
			}
			b.quietFor(time.Minute)
		}
		if now := counters.Lateness(); now != late {
			b.Errorf("events that are published again count as late: %+v, before %+v", now, late)
		}
		for _, which := range []timer.Refire{
			{}, {Since: time.Now().Add(time.Hour)}, {Since: began, Until: began}, {Since: began, TenantID: "a b"}, {Since: began, Prefix: "a b"}, {Since: began, After: "x"},
		} {
			if _, err := a.Refire(b.Context(), which); !errors.Is(err, timer.ErrInvalid) {
				b.Errorf("%+v: %v, want ErrInvalid", which, err)
			}
		}
	})
}

// TestRefireGoesOnWhereItEnded has more events than there is time for, and another timer that is
// not late for them.
func TestRefireGoesOnWhereItEnded(t *testing.T) {
	onBrokers(t, func(b *bench) {
		const many = 3000
		a, _ := b.serve(app.Options{})
		began := time.Now()
		put(b, b.store, "acme", began, calls(many)...)
		times := make(map[timer.ServiceCallID]int)
		received := make(chan struct{})
		go func() {
			defer close(received)
			for range 2*many + 1 {
				e := b.next()
				times[e.ServiceCallID]++
				if e.ServiceCallID == "on-time" && e.Lateness() > 50*time.Millisecond {
					b.Errorf("%s fired %v late", e.Key, e.Lateness())
				}
			}
		}()
		time.Sleep(10 * time.Second)
		b.schedule("on-time", time.Now().Add(700*time.Millisecond))
		sum, parts, which := 0, 0, timer.Refire{TenantID: "acme", Since: timer.RoundDown(began), Until: time.Now()}
		for more := true; more; more = which.After != "" {
			ctx, cancel := context.WithTimeout(b.Context(), 450*time.Millisecond)
			did, err := a.Refire(ctx, which)
			cancel()
			if which.After = did.Next; did.Events == 0 || which.After != "" && !errors.Is(err, context.DeadlineExceeded) || which.After == "" && err != nil {
				b.Fatalf("%+v, %v", did, err)
			}
			sum, parts = sum+did.Events, parts+1
		}
		<-received
		if sum != many || parts < 2 || times["on-time"] != 1 || len(times) != many+1 {
			b.Errorf("published %d again in %d parts, of %d calls there are events", sum, parts, len(times))
		}
		for call, n := range times {
			if call != "on-time" && n != 2 {
				b.Errorf("%s has %d events", call, n)
			}
		}
	})
}

// TestStartPausedFiresNothingUntilItIsResumed restarts before and after the resume, and then
// recovers a lost database, which pauses nothing.
func TestStartPausedFiresNothingUntilItIsResumed(t *testing.T) {
	onServer(t, func(b *server) {
		opt := app.Options{StartPaused: true}
		stop := b.on(mine, opt)
		b.schedule("call-1", time.Now().Add(time.Second))
		b.fires(time.Minute, "")
		stop()
		a, end := b.service(mine, opt)
		b.fires(time.Minute, "")
		if p := a.Status().Poller.Paused[""]; p.By != "start_paused" {
			b.Errorf("paused: %+v", p)
		}
		must(b, a.Resume(b.Context(), ""))
		b.fires(time.Minute, "call-1")
		end()
		stop = b.on(mine, opt)
		b.schedule("call-2", time.Now().Add(time.Second))
		b.fires(2*time.Second, "call-2")
		stop()
		b.replace("")
		stop = b.recovers(opt, true)
		b.schedule("call-3", time.Now().Add(time.Second))
		b.fires(2*time.Second, "call-3")
		stop()
	})
}
