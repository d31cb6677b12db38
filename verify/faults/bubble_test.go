package faults_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/broker/nats/embedded"
	"github.com/event-service-agent/timer-service/internal/proxy"
	"github.com/event-service-agent/timer-service/store/sqlite"
)

// A simulation is the app in a bubble of testing/synctest, a broker in the same
// process and a proxy between them. It lasts until the test ends.
type simulation struct {
	proxy    *proxy.Proxy
	counters *app.Counters
	js       jetstream.JetStream
}

func simulate(t *testing.T) *simulation {
	t.Helper()
	e, err := embedded.Start(embedded.Options{StoreDir: t.TempDir(), DontListen: true}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Shutdown)
	s := &simulation{proxy: proxy.New(e.InProcessConn), counters: new(app.Counters)}
	t.Cleanup(func() { s.proxy.Close() })
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "timers.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	b := nats.New(nats.Options{Connect: []natsgo.Option{natsgo.InProcessServer(s.proxy)}}, quiet)
	a, err := app.New(db, b, quiet, app.Options{Counters: s.counters})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(keep(t, b.Run))
	t.Cleanup(keep(t, a.Run))
	conn, err := natsgo.Connect("", natsgo.InProcessServer(e))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if s.js, err = jetstream.New(conn); err != nil {
		t.Fatal(err)
	}
	await(t, "a broker that is ready", time.Minute, func() bool { return b.Ready(t.Context()) == nil })
	return s
}

// ask publishes a command.
func (s *simulation) ask(t *testing.T, call string, due time.Time) {
	t.Helper()
	if _, err := s.js.Publish(t.Context(), "timer.commands", scheduleTimer(call, time.Now(), due)); err != nil {
		t.Fatal(err)
	}
}

// TestTenMinutesWithoutABroker has the app wait for its broker, in simulated
// time, with a timer due in each second of it. Once it knows, none fires before the
// broker is back.
func TestTenMinutesWithoutABroker(t *testing.T) {
	synctest.Test(t, tenMinutes)
	runtime.GC() // the client library keeps timers for later, which must not be of a bubble
	runtime.GC()
}

func tenMinutes(t *testing.T) {
	const minutes = 10
	const unnoticed = 20 // seconds at most until it knows that nothing answers
	const before, all = minutes * 60, minutes*60 + minutes
	s := simulate(t)
	began := time.Now()
	for i := range before {
		s.ask(t, fmt.Sprintf("before-%d", i), began.Add(time.Duration(i+1)*time.Second))
	}
	await(t, "all commands accepted", time.Minute, func() bool { return accepted(s.counters) >= before })
	goroutines := runtime.NumGoroutine()
	s.proxy.Drop(proxy.ToServer, proxy.ToClient)
	s.proxy.Refuse() // else the client library waits for an answer with its lock held, and time stands still (nats.go v1.55.0)
	for i := range minutes {
		s.ask(t, fmt.Sprintf("meanwhile-%d", i), time.Now().Add(time.Second))
		time.Sleep(time.Minute)
	}
	if n := runtime.NumGoroutine(); n > goroutines+moreGoroutines {
		t.Errorf("%d goroutines before, %d now", goroutines, n)
	}
	if n := s.counters.Reached(); n > unnoticed {
		t.Errorf("%d timers were reached meanwhile, want at most %d", n, unnoticed)
	}
	s.proxy.Pass()
	passed := time.Now()
	await(t, "all events", time.Minute, func() bool { return s.counters.Forwarded() >= all })
	t.Logf("all %d events were out %v after the outage", s.counters.Forwarded(), time.Since(passed))

	stream, err := s.js.Stream(t.Context(), "svc")
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter("svc.>"))
	if err != nil {
		t.Fatal(err)
	}
	if n := info.State.Subjects["svc.acme.serviceCall"]; n != all || len(info.State.Subjects) != 1 {
		t.Errorf("the broker keeps %v, want %d events and nothing else", info.State.Subjects, all)
	}
}
