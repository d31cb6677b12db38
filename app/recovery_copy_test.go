package app_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/timer"
)

// TestRecoversACopyWithEventsOnTheirWay puts a copy back that was made between the publish
// of an event and its removal from the outbox.
func TestRecoversACopyWithEventsOnTheirWay(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		db := s.open("timers.db")
		failing := &fault.Store{Full: db, Decide: func(op string) fault.Kind {
			if op == "delete" {
				return fault.Before
			}
			return fault.None
		}}
		a := s.app(failing, app.Options{})
		end := running(t, "app", a.Run)
		<-a.Running()
		began := time.Now()
		s.schedule("fired", began.Add(time.Second))
		if got := s.fired(began.Add(10 * time.Second)); got != "fired" {
			t.Errorf("fired at first: %s", got)
		}
		s.schedule("before", began.Add(5*time.Minute)) // notes that the event was seen
		s.settle()
		s.backUp("timers.db", "copy.db")
		s.schedule("since", began.Add(5*time.Minute))
		s.settle()
		end()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		s.outlive(130 * time.Second) // beyond the duplicate window of the stream

		s.replace("timers.db", "copy.db")
		s.log.Take()
		stop := s.serve("timers.db", app.Options{})
		if !s.recovered() {
			t.Error("no recovery was logged")
		}
		if got := s.fired(began.Add(6 * time.Minute)); got != "before since" && got != "since before" {
			t.Errorf("fired after the recovery: %s", got)
		}
		stop()
	})
}

// A shared database is one that other instances run on, or verify.
type shared struct {
	app.Store
	timer.Recoverer
	other atomic.Bool
	err   error // of Alone, while other is true
}

func (s *shared) Recovery() timer.Recoverer { return s }

func (s *shared) Alone(ctx context.Context, fn func(context.Context) error) error {
	if s.other.Load() {
		return s.err
	}
	return s.Recoverer.Alone(ctx, fn)
}

// TestVerifiesWhenNoOtherDoes has an instance start on an older database while another one
// verifies that, and ends before it has recovered it.
func TestVerifiesWhenNoOtherDoes(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		stop := s.serve("timers.db", app.Options{})
		s.schedule("before", time.Now().Add(5*time.Minute))
		s.settle()
		s.backUp("timers.db", "copy.db")
		s.schedule("since", time.Now().Add(5*time.Minute))
		s.settle()
		stop()
		s.replace("timers.db", "copy.db")
		s.log.Take()

		file := s.open("timers.db")
		defer file.Close()
		db := &shared{Store: file, Recoverer: file, err: errors.New("another instance verifies the database")}
		db.other.Store(true)
		var owned atomic.Bool
		a := s.app(db, app.Options{Owned: func() { owned.Store(true) }})
		end := running(t, "app", a.Run)
		<-a.Running()
		s.outlive(5 * time.Minute)
		if owned.Load() {
			t.Error("commands are taken while another instance verifies the database")
		}
		db.other.Store(false)
		s.settle()
		if !s.recovered() {
			t.Error("no recovery was logged")
		}
		end()
	})
}

// TestGoesOnBesideOthers has an instance start beside one that runs, which has verified
// the database.
func TestGoesOnBesideOthers(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		stop := s.serve("timers.db", app.Options{})
		s.schedule("good", time.Now().Add(time.Minute))
		s.settle()
		s.publish("not JSON", []byte("{")) // acked when it is a dead letter
		s.settle()
		stop()
		s.log.Take()
		file := s.open("timers.db")
		defer file.Close()
		db := &shared{Store: file, Recoverer: file}
		db.other.Store(true)
		a := s.app(db, app.Options{})
		end := running(t, "app", a.Run)
		<-a.Running()
		if got := s.fired(time.Now().Add(2 * time.Minute)); got != "good" {
			t.Errorf("fired: %q", got)
		}
		if s.recovered() {
			t.Error("a recovery beside an instance that runs")
		}
		end()
	})
}

// TestAnInstanceThatLostItsSessionVerifiesAgain has an instance lose its shard, and with it
// its part in the lock of the database.
func TestAnInstanceThatLostItsSessionVerifiesAgain(t *testing.T) {
	for what, tt := range map[string]struct {
		meanwhile func(s *site)
		fatal     bool
	}{
		"nothing is missing": {func(*site) {}, false},
		"the last command is a dead letter, the broker has acked it": {func(s *site) { s.publish("not JSON", []byte("{")) }, false},
		"a timer has fired that is not Reached": {func(s *site) {
			event := timer.DueTimeReached{Key: keyOf("call"), ID: "event", DueAt: time.Now(), ReachedAt: time.Now()}
			m := message.NewMessage(event.ID, envelope.Reached(event))
			if err := broker.Join(s.client.Publisher().Publish(s.t.Context(), broker.Message{Topic: s.client.Routing().EventsOf("acme"), Message: m})); err != nil {
				s.t.Fatal(err)
			}
		}, true},
	} {
		t.Run(what, func(t *testing.T) {
			onSite(t, func(t *testing.T, s *site) {
				file := s.open("timers.db")
				defer file.Close()
				lost := make(chan struct{})
				db := &sharded{Store: file, free: make(chan struct{}), lost: lost}
				close(db.free)
				a := s.app(db, app.Options{})
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				ended := make(chan error, 1)
				go func() { ended <- a.Run(ctx) }()
				<-a.Running()
				due := time.Now().Add(5 * time.Minute)
				s.schedule("call", due)
				s.settle()
				tt.meanwhile(s)
				s.settle()
				close(lost)
				if !tt.fatal {
					if got := s.fired(due.Add(time.Minute)); got != "call" {
						t.Errorf("fired: %q", got)
					}
					stop()
				}
				if err := <-ended; errors.Is(err, timer.ErrFatal) != tt.fatal || !tt.fatal && err != nil {
					t.Errorf("ended with %v, fatal %t", err, tt.fatal)
				}
				if strings.Contains(s.log.Take(), "is recovered") {
					t.Error("a recovery while the instance runs")
				}
			})
		})
	}
}

// TestRecoveredTimersHaveTheTimesOfTheirCommands has commands come minutes apart, which are
// read again at once.
func TestRecoveredTimersHaveTheTimesOfTheirCommands(t *testing.T) {
	longtest.NotShort(t)
	onSite(t, func(t *testing.T, s *site) {
		stop := s.serve("timers.db", app.Options{})
		due := time.Now().Add(1000 * time.Hour)
		s.schedule("first", due)
		s.outlive(10 * time.Minute)
		s.schedule("second", due)
		s.outlive(15 * time.Minute)
		s.cancel("canceled")
		s.settle()
		stop()
		want := s.times("timers.db")
		s.replace("timers.db", "")
		stop = s.serve("timers.db", app.Options{})
		s.settle()
		stop()
		if got := s.times("timers.db"); got != want {
			t.Errorf("registered and canceled at %s, want %s", got, want)
		}
	})
}

// times returns when the timers of a database were registered or canceled, in minutes.
func (s *site) times(name string) string {
	s.t.Helper()
	db := s.open(name)
	defer db.Close()
	all := make([]time.Time, 0, 3)
	for _, call := range []string{"first", "second", "canceled"} {
		e, err := db.Get(s.t.Context(), keyOf(call))
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, cmp.Or(e.CanceledAt, e.RegisteredAt).Truncate(time.Minute))
	}
	return fmt.Sprint(all)
}

// fill makes a database that is not empty.
func (s *site) fill(name string) {
	s.t.Helper()
	db := s.open(name)
	defer db.Close()
	put(s.t, db, "acme", time.Now().Add(24*time.Hour), "own")
}
