package app_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/deadletter"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/timer"
)

// TestADryRunSaysWhatTheRunChanges loses a part of a database, or all of it. Many commands
// are of the same timers, some have fired, were canceled, or are dead letters.
func TestADryRunSaysWhatTheRunChanges(t *testing.T) {
	longtest.NotShort(t)
	for what, with := range map[string]string{"in part": "copy.db", "all of it": ""} {
		t.Run(what, func(t *testing.T) {
			onSite(t, func(t *testing.T, s *site) {
				stop := s.serve("timers.db", app.Options{})
				s.traffic(300)
				s.backUp("timers.db", "copy.db")
				s.traffic(700)
				stop()
				s.replace("timers.db", with)

				var would app.Recovered
				for _, dry := range []bool{true, false} {
					db := s.open("timers.db")
					got, err := s.app(db, app.Options{}).Recover(t.Context(), dry)
					if err != nil {
						t.Fatalf("dry %t: %v", dry, err)
					}
					if dry {
						would = got
					}
					if got.Timers < 100 || got.Reached < 10 || got.Timers >= got.Commands || got.Reached > got.Events {
						t.Errorf("dry %t: %+v, want much that changes, and some that does not", dry, got)
					}
					would.Reason = got.Reason // the run also knows whose place the database takes
					if got != would {
						t.Errorf("the run did %+v, the dry run said %+v", got, would)
					}
					if err := db.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// TestAnInterruptedRecoveryGoesOnAtTheNextStart has the database fail when the events are
// read, and ends the service.
func TestAnInterruptedRecoveryGoesOnAtTheNextStart(t *testing.T) {
	for what, with := range map[string]string{"of a copy": "copy.db", "of all": ""} {
		t.Run(what, func(t *testing.T) {
			onSite(t, func(t *testing.T, s *site) {
				stop := s.serve("timers.db", app.Options{})
				began := time.Now()
				s.schedule("fired", began.Add(10*time.Second))
				s.settle()
				s.backUp("timers.db", "copy.db")
				s.schedule("later", began.Add(10*time.Minute))
				if got := s.fired(began.Add(time.Minute)); got != "fired" {
					t.Errorf("fired at first: %s", got)
				}
				stop()
				s.outlive(130 * time.Second) // beyond the duplicate window of the stream
				s.replace("timers.db", with)

				db := s.open("timers.db")
				failing := &fault.Store{Full: db, Decide: func(op string) fault.Kind {
					if op == "fired" {
						return fault.Before
					}
					return fault.None
				}}
				end := running(t, "app", s.app(failing, app.Options{}).Run)
				s.outlive(10 * time.Second)
				end()
				if err := db.Close(); err != nil {
					t.Error(err)
				}
				if got, want := s.states("timers.db", "fired", "later"), "fired:Scheduled later:Scheduled"; got != want {
					t.Errorf("states %s, want the commands alone, %s", got, want)
				}
				if err := s.refused("timers.db", app.Options{AskToRecover: true}); !errors.Is(err, timer.ErrFatal) {
					t.Errorf("when it has to be asked for: %v, want ErrFatal", err)
				}
				s.log.Take()
				stop = s.serve("timers.db", app.Options{})
				if !s.recovered() {
					t.Error("no recovery was logged")
				}
				if got := s.fired(began.Add(11 * time.Minute)); got != "later" {
					t.Errorf("fired after the recovery: %s", got)
				}
				stop()
			})
		})
	}
}

// traffic sends commands of few timers, and invalid ones, while some of the timers fire.
func (s *site) traffic(commands int) {
	random := rand.New(rand.NewPCG(1, uint64(s.sent)))
	for range commands {
		s.outlive(time.Duration(random.IntN(100)) * time.Millisecond)
		call := fmt.Sprint("call-", random.IntN(200))
		switch random.IntN(10) {
		case 0:
			s.publish(s.next(), []byte("{"))
		case 1: // refused today, but not tomorrow
			id := s.next()
			ahead := timer.Version{TimestampMS: time.Now().Add(25 * time.Hour).UnixMilli(), CommandID: id}
			s.publish(id, envelope.Schedule(timer.ScheduleTimer{Key: keyOf(call), Version: ahead, DueAt: time.Now().Add(time.Hour)}))
		case 2, 3, 4:
			if random.IntN(10) > 0 {
				s.cancel(call)
				continue
			}
			id := s.next() // of call-1, call-10 and so on
			s.publish(id, envelope.CancelMany(timer.CancelTimers{
				TenantID: "acme", Version: timer.Version{TimestampMS: time.Now().UnixMilli(), CommandID: id}, Of: timer.Selection{Prefix: call},
			}))
		case 5, 6:
			s.schedule(call, time.Now().Add(time.Second))
		default:
			s.schedule(call, time.Now().Add(time.Hour))
		}
	}
	s.settle()
}

// TestARecoveryKnowsWhatOperatorsDecided discards a dead letter, forgets a tenant and pauses
// firing. The database that is recovered is as they left it.
func TestARecoveryKnowsWhatOperatorsDecided(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		began := time.Now()
		db := s.open("timers.db")
		a := s.app(db, app.Options{Horizon: time.Hour})
		stop := running(t, "app", a.Run)
		<-a.Running()
		s.schedule("waits", began.Add(40*time.Minute))
		s.schedule("discarded", began.Add(2*time.Hour)) // beyond the horizon, today
		other := timer.Key{TenantID: "other", ServiceCallID: "forgotten"}
		forgotten := broker.Message{Topic: s.client.Routing().CommandsOf("other"), Message: message.NewMessage("command-other", envelope.Schedule(timer.ScheduleTimer{
			Key: other, Version: timer.Version{TimestampMS: began.UnixMilli(), CommandID: "command-other"}, DueAt: began.Add(40 * time.Minute),
		}))}
		if err := broker.Join(s.client.Publisher().Publish(t.Context(), forgotten)); err != nil {
			t.Fatal(err)
		}
		s.settle()
		letters := deadletter.New(s.client)
		if did, err := letters.Discard(t.Context(), deadletter.Filter{}, nil); err != nil || did.Done != 1 {
			t.Fatalf("discarded %+v, %v", did, err)
		}
		if did, err := letters.List(t.Context(), deadletter.Filter{}, func(deadletter.Message) error { return nil }); err != nil || did.Done != 0 {
			t.Errorf("listed %+v, %v, want nothing that people see", did, err)
		}
		pause := func(tenant timer.TenantID, by string, until time.Time) error {
			return a.Pause(t.Context(), timer.Pause{TenantID: tenant, Until: until, By: by})
		}
		until := began.Add(10 * time.Hour)
		if err := pause("other", "ann", until); err != nil {
			t.Fatal(err)
		}
		if c, err := a.Forget(t.Context(), "other"); err != nil || c.Total() != 1 {
			t.Errorf("forgot %+v, %v", c, err)
		}
		if err := errors.Join(
			pause("", "bob", time.Time{}), a.Resume(t.Context(), ""), pause("", "ann", time.Time{}), pause("", "eve", time.Time{}),
			pause("acme", "ann", until), pause("acme", "bob", until.Add(time.Hour)), pause("resumed", "ann", until), a.Resume(t.Context(), "resumed"),
		); err != nil {
			t.Fatal(err)
		}
		s.settle()
		stop()
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		s.replace("timers.db", "")
		s.outlive(130 * time.Second) // beyond the duplicate window of the stream

		stop = s.serve("timers.db", app.Options{Horizon: 48 * time.Hour})
		if !s.recovered() {
			t.Error("no recovery was logged")
		}
		stop()
		if got, want := s.states("timers.db", "waits", "discarded"), "waits:Scheduled discarded:"; got != want {
			t.Errorf("states %s, want %s", got, want)
		}
		db = s.open("timers.db")
		defer db.Close()
		if e, err := db.Get(t.Context(), other); !errors.Is(err, timer.ErrNotFound) {
			t.Errorf("the tenant that was forgotten has %+v, %v", e, err)
		}
		p, err := db.Firing(t.Context(), time.Now())
		if err != nil || len(p) != 2 || p[""].By != "ann" || p["acme"].By != "ann" || !p["acme"].Until.Equal(timer.RoundUp(until.Add(time.Hour))) {
			t.Errorf("firing: %+v, %v, want it paused by ann, of all and of acme", p, err)
		}
	})
}
