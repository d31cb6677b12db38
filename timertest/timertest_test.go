package timertest_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/timer"
	"github.com/event-service-agent/timer-service/timertest"
)

// brokers are the options that choose one.
var brokers = map[string][]timertest.Option{
	"in memory": nil,
	"NATS":      {timertest.NATS()},
}

// TestMain fails if a goroutine is left.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bubbles runs a test in a bubble with each broker.
func bubbles(t *testing.T, test func(t *testing.T, s *timertest.Service), more ...timertest.Option) {
	for name, options := range brokers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			synctest.Test(t, func(t *testing.T) { test(t, timertest.Start(t, append(more, options...)...)) })
			t.Logf("%v of real time", time.Since(began))
		})
	}
}

const acme = "acme"

// order is a timer that is due after d.
func order(call string, d time.Duration) client.Timer {
	return client.Timer{TenantID: acme, ServiceCallID: timer.ServiceCallID(call), DueAt: time.Now().Add(d)}
}

// calls returns those of events, and how many there are with an id that was there
// before.
func calls(events []timer.DueTimeReached) (of []timer.ServiceCallID, again int) {
	ids := make(map[string]bool)
	for _, e := range events {
		if ids[e.ID] {
			again++
			continue
		}
		ids[e.ID] = true
		of = append(of, e.ServiceCallID)
	}
	return of, again
}

// fired checks that the events of acme are of these calls, each once.
func fired(t *testing.T, s *timertest.Service, want ...timer.ServiceCallID) {
	t.Helper()
	if got, again := calls(s.Fired(acme)); !slices.Equal(got, want) || again > 0 {
		t.Errorf("events of %v, %d of them again; want %v", got, again, want)
	}
}

func TestBeginsTwoDaysAfterTheBubble(t *testing.T) {
	t.Parallel()
	bubbles(t, func(t *testing.T, s *timertest.Service) {
		if want := time.Date(2000, 1, 3, 0, 0, 0, 0, time.UTC); !time.Now().Equal(want) {
			t.Errorf("it is %v, want %v", time.Now().UTC(), want)
		}
		s.Schedule(order("overdue", -47*time.Hour))
		s.AwaitIdle()
		fired(t, s, "overdue")
	})
}

func TestHoursPassAtOnce(t *testing.T) {
	t.Parallel()
	bubbles(t, func(t *testing.T, s *timertest.Service) {
		events := s.Events(acme)
		s.Schedule(order("in-an-hour", time.Hour), order("in-half-an-hour", 30*time.Minute), order("now", 0))
		for _, after := range []time.Duration{0, 30 * time.Minute, 30 * time.Minute} {
			e := <-events
			if !e.ReachedAt.Equal(e.DueAt) || !time.Now().Equal(e.DueAt) {
				t.Errorf("%s, due at %v, was reached at %v and arrived at %v, %v after the one before", e.Key, e.DueAt, e.ReachedAt, time.Now(), after)
			}
		}
		if e := <-s.Events(acme); e.ServiceCallID != "now" {
			t.Errorf("another channel begins with %s", e.Key)
		}
		fired(t, s, "now", "in-half-an-hour", "in-an-hour")
		if n := len(s.Fired("other")); n != 0 {
			t.Errorf("%d events of another tenant", n)
		}
	})
}

func TestDueAndTimersAlsoWithoutTheService(t *testing.T) {
	t.Parallel()
	bubbles(t, func(t *testing.T, s *timertest.Service) {
		s.Schedule(order("later", 2*time.Hour), order("sooner", time.Hour), order("now", 0), order("canceled", time.Hour))
		s.Cancel(timer.Key{TenantID: acme, ServiceCallID: "canceled"})
		s.AwaitIdle()
		check := func() {
			t.Helper()
			due, all := s.Due(), s.Timers(acme)
			if len(due) != 2 || due[0].ServiceCallID != "sooner" || time.Until(due[1].DueAt) > 2*time.Hour {
				t.Errorf("due are %+v", due)
			}
			if len(all) != 4 || all[0].State != timer.Canceled || all[2].State != timer.Reached {
				t.Errorf("timers are %+v", all)
			}
		}
		check()
		s.Crash()
		check()
		if s.App() != nil || s.Store() != nil {
			t.Error("there is an app after a crash")
		}
		s.Restart()
	})
}

func TestCommandsWaitForAServiceThatStartsLater(t *testing.T) {
	t.Parallel()
	bubbles(t, func(t *testing.T, s *timertest.Service) {
		s.Schedule(order("call", time.Minute))
		time.Sleep(time.Hour)
		fired(t, s)
		s.Restart()
		s.AwaitIdle()
		fired(t, s, "call")
	}, timertest.Stopped())
}

func TestCommandsWaitForTheServiceAfterACrash(t *testing.T) {
	t.Parallel()
	bubbles(t, func(t *testing.T, s *timertest.Service) {
		s.Schedule(order("before", 30*time.Minute))
		s.AwaitIdle()
		s.Crash()
		s.Schedule(order("meanwhile", time.Minute))
		time.Sleep(time.Hour)
		fired(t, s)
		s.Restart()
		s.AwaitIdle()
		if got, again := calls(s.Fired(acme)); len(got) != 2 || again > 0 {
			t.Errorf("events of %v, %d of them again", got, again)
		}
		s.Restart() // in order
		s.Schedule(order("after", time.Minute))
		time.Sleep(time.Minute)
		s.AwaitIdle()
		if got, again := calls(s.Fired(acme)); len(got) != 3 || again > 0 {
			t.Errorf("events of %v, %d of them again", got, again)
		}
	})
}

func TestBrokerDown(t *testing.T) {
	t.Parallel()
	bubbles(t, func(t *testing.T, s *timertest.Service) {
		s.Schedule(order("call", 30*time.Second))
		s.AwaitIdle()
		_, before := s.Broker().Interruptions()
		s.BrokerDown(time.Minute)
		began := time.Now()
		if _, err := s.Client().Schedule(t.Context(), order("refused", 0)); !errors.Is(err, broker.ErrUnavailable) {
			t.Errorf("publish: %v", err)
		}
		_, away := s.Broker().Interruptions()
		if err := s.Broker().Ready(t.Context()); before != nil || !errors.Is(away, broker.ErrUnavailable) || !errors.Is(err, broker.ErrUnavailable) {
			t.Errorf("away %v and %v, not ready %v", before, away, err)
		}
		time.Sleep(59 * time.Second)
		synctest.Wait()
		fired(t, s)
		s.AwaitIdle()
		fired(t, s, "call")
		if took := time.Since(began); took < time.Minute || took > time.Minute+2*time.Second {
			t.Errorf("the outage took %v", took)
		}
		s.BrokerDown(time.Minute)
		s.BrokerDown(time.Second) // no shorter
		time.Sleep(30 * time.Second)
		if s.Broker().Ready(t.Context()) == nil {
			t.Error("the second outage ended the first")
		}
	})
}

// TestAckWhileTheBrokerIsDown: the message comes again.
func TestAckWhileTheBrokerIsDown(t *testing.T) {
	t.Parallel()
	bubbles(t, func(t *testing.T, s *timertest.Service) {
		events, err := s.Broker().Subscriber("shop").Subscribe(t.Context(), s.Broker().Routing().EventsOf(acme))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s.Schedule(order("call", time.Minute))
		first := <-events
		s.BrokerDown(time.Minute)
		first.Ack()
		down := time.Now()
		again := <-events
		if again.UUID != first.UUID || time.Since(down) < time.Minute {
			t.Errorf("%s after %v, want %s again after the outage", again.UUID, time.Since(down), first.UUID)
		}
		again.Ack()
		time.Sleep(10 * time.Minute)
		fired(t, s, "call")
	})
}

// TestOptionsAndStore has the store fail from half a minute after the start for ten minutes.
func TestOptionsAndStore(t *testing.T) {
	t.Parallel()
	failing := func(op string) bool {
		at := time.Since(time.Date(2000, 1, 3, 0, 0, 0, 0, time.UTC))
		return op == "update" && at > 30*time.Second && at < 10*time.Minute
	}
	bubbles(t, func(t *testing.T, s *timertest.Service) {
		s.Schedule(order("beyond", 48*time.Hour), order("call", time.Minute))
		s.AwaitIdle()
		if due := s.Due(); len(due) != 1 || due[0].ServiceCallID != "call" {
			t.Errorf("due are %+v, want one within the horizon", due)
		}
		time.Sleep(9 * time.Minute)
		fired(t, s)
		time.Sleep(time.Minute)
		s.AwaitIdle()
		fired(t, s, "call")
	}, timertest.Options(app.Options{Horizon: 24 * time.Hour}), timertest.Store(func(s app.Store) app.Store {
		return &fault.Store{Full: s, Decide: func(op string) fault.Kind {
			if failing(op) {
				return fault.Before
			}
			return fault.None
		}}
	}))
}
