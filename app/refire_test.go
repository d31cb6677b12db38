package app_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/timer"
)

// TestRefirePublishesWhatABrokerHasLost removes events from a NATS server that remembers
// their ids, publishes them again, and once more after a restart.
func TestRefirePublishesWhatABrokerHasLost(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		db := s.open("timers.db")
		defer db.Close()
		a := s.app(db, app.Options{})
		stop := running(t, "app", a.Run)
		<-a.Running()
		began := time.Now()
		for i := range 5 {
			s.schedule(fmt.Sprint("call-", i), began.Add(time.Duration(5-i)*time.Second))
		}
		s.schedule("waits", began.Add(time.Hour))
		s.schedule("canceled", began.Add(time.Hour))
		s.settle()
		s.cancel("canceled")
		if got := s.fired(began.Add(10 * time.Second)); got != "call-4 call-3 call-2 call-1 call-0" {
			t.Fatalf("fired %s", got)
		}
		s.streams(func(js jetstream.JetStream, name string) error {
			stream, err := js.Stream(t.Context(), name)
			if err == nil {
				err = stream.Purge(t.Context())
			}
			return err
		})
		since := timer.Refire{TenantID: "acme", Since: began.Add(2 * time.Second)}
		did, err := a.Refire(t.Context(), since)
		if err != nil || did.Events != 4 || did.Next != "" {
			t.Errorf("%+v, %v", did, err)
		}
		if got := s.fired(began.Add(20 * time.Second)); got != "call-3 call-2 call-1 call-0" {
			t.Errorf("published again: %s", got)
		}
		stop()
		stop = s.serveOn(db, app.Options{})
		defer stop()
		if got := s.fired(began.Add(40 * time.Second)); got != "" {
			t.Errorf("published after a restart: %s", got)
		}
	})
}

// streams calls fn with the name of each stream of the server.
func (s *site) streams(fn func(js jetstream.JetStream, name string) error) {
	s.t.Helper()
	conn, err := natsgo.Connect("", natsgo.InProcessServer(s.server))
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		s.t.Fatal(err)
	}
	for name := range js.StreamNames(s.t.Context()).Name() {
		if err := fn(js, name); err != nil {
			s.t.Fatal(err)
		}
	}
}

// TestRefireSelects by tenant, by prefix and by time, in the order in which timers fired.
func TestRefireSelects(t *testing.T) {
	inBubbles(t, func(t *testing.T, b *bench) {
		counters := new(app.Counters)
		a := b.serve(b.store, app.Options{Counters: counters, Retention: 24 * time.Hour})
		began := timer.RoundUp(time.Now())
		ids := make(map[timer.ServiceCallID]string)
		for i := range 6 {
			b.schedule(fmt.Sprint(string("ab"[i%2]), "-", 5-i), began.Add(time.Duration(i+1)*time.Second))
		}
		put(t, b.store, "other", began, "a-0")
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
			did, err := a.Refire(t.Context(), test.which)
			if err != nil || did.Events != test.all || len(did.First) != test.all || did.Next != "" || !did.CompleteFrom.Equal(timer.RoundUp(time.Now().Add(-24*time.Hour))) {
				t.Errorf("%+v: %+v, %v", test.which, did, err)
			}
			for _, call := range strings.Fields(test.want) {
				if e := b.next(); string(e.ServiceCallID) != call || e.ID != ids[e.ServiceCallID] || e.ReachedAt.After(began.Add(10*time.Second)) {
					t.Errorf("%+v: got %+v, want %s with the id %s", test.which, e, call, ids[e.ServiceCallID])
				}
			}
			b.quietFor(time.Minute)
		}
		if now := counters.Lateness(); now != late {
			t.Errorf("events that are published again count as late: %+v, before %+v", now, late)
		}
		for _, which := range []timer.Refire{
			{}, {Since: time.Now().Add(time.Hour)}, {Since: began, Until: began}, {Since: began, TenantID: "a b"}, {Since: began, Prefix: "a b"}, {Since: began, After: "x"},
		} {
			if _, err := a.Refire(t.Context(), which); !errors.Is(err, timer.ErrInvalid) {
				t.Errorf("%+v: %v, want ErrInvalid", which, err)
			}
		}
	})
}

// TestRefireGoesOnWhereItEnded has more events than there is time for, and another timer that is
// not late for them.
func TestRefireGoesOnWhereItEnded(t *testing.T) {
	inBubbles(t, func(t *testing.T, b *bench) {
		const many = 3000
		a := b.serve(b.store, app.Options{})
		began := time.Now()
		put(t, b.store, "acme", began, calls(many)...)
		times := make(map[timer.ServiceCallID]int)
		received := make(chan struct{})
		go func() {
			defer close(received)
			for range 2*many + 1 {
				e := b.next()
				times[e.ServiceCallID]++
				if e.ServiceCallID == "on-time" && e.Lateness() > 50*time.Millisecond {
					t.Errorf("%s fired %v late", e.Key, e.Lateness())
				}
			}
		}()
		time.Sleep(10 * time.Second)
		b.schedule("on-time", time.Now().Add(700*time.Millisecond))
		sum, which := 0, timer.Refire{TenantID: "acme", Since: timer.RoundDown(began), Until: time.Now()}
		for calls := 1; ; calls++ {
			ctx, cancel := context.WithTimeout(t.Context(), 450*time.Millisecond)
			did, err := a.Refire(ctx, which)
			cancel()
			sum += did.Events
			if which.After = did.Next; which.After == "" {
				if err != nil || calls < 2 {
					t.Errorf("ended after %d calls: %v", calls, err)
				}
				break
			}
			if !errors.Is(err, context.DeadlineExceeded) || did.Events == 0 {
				t.Errorf("%+v, %v", did, err)
			}
		}
		<-received
		if sum != many || times["on-time"] != 1 || len(times) != many+1 {
			t.Errorf("published %d again, of %d calls there are events", sum, len(times))
		}
		for call, n := range times {
			if call != "on-time" && n != 2 {
				t.Errorf("%s has %d events", call, n)
			}
		}
	})
}
