package app_test

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/internal/fault"
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

// A shared database has another instance while other is true.
type shared struct {
	app.Store
	other atomic.Bool
}

func (s *shared) Nodes(ctx context.Context) ([]timer.Node, error) {
	nodes, err := s.Store.Nodes(ctx)
	if s.other.Load() {
		nodes = append(nodes, timer.Node{ID: "other"})
	}
	return nodes, err
}

// TestRecoversWhenOthersHaveEnded has the database of two instances become older. One has
// ended and starts again before the other one has ended.
func TestRecoversWhenOthersHaveEnded(t *testing.T) {
	for what, since := range map[string]func(s *site, began time.Time){
		"a command was acked since": func(s *site, began time.Time) { s.schedule("since", began.Add(5*time.Minute)) },
		"a timer has fired since": func(s *site, began time.Time) {
			if got := s.fired(began.Add(20 * time.Second)); got != "soon" {
				s.t.Errorf("fired at first: %s", got)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			onSite(t, func(t *testing.T, s *site) {
				stop := s.serve("timers.db", app.Options{})
				began := time.Now()
				s.schedule("soon", began.Add(10*time.Second))
				s.settle()
				s.backUp("timers.db", "copy.db")
				since(s, began)
				s.settle()
				stop()
				s.replace("timers.db", "copy.db")
				s.outlive(130 * time.Second) // beyond the duplicate window of the stream
				s.log.Take()

				file := s.open("timers.db")
				defer file.Close()
				db := &shared{Store: file}
				db.other.Store(true)
				var owned atomic.Bool
				a := s.app(db, app.Options{Owned: func() { owned.Store(true) }})
				end := running(t, "app", a.Run)
				<-a.Running()
				s.settle()
				if owned.Load() {
					t.Error("commands are taken before the other instance has ended")
				}
				db.other.Store(false)
				s.settle()
				if !s.recovered() {
					t.Error("no recovery was logged")
				}
				end()
			})
		})
	}
}

// TestGoesOnBesideOthersThatStay has an instance start beside one that finds nothing wrong.
func TestGoesOnBesideOthersThatStay(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		stop := s.serve("timers.db", app.Options{})
		s.schedule("good", time.Now().Add(time.Minute))
		s.settle()
		s.publish("not JSON", []byte("{")) // acked when it is a dead letter
		s.settle()
		stop()
		file := s.open("timers.db")
		defer file.Close()
		db := &shared{Store: file}
		db.other.Store(true)
		a := s.app(db, app.Options{})
		end := running(t, "app", a.Run)
		<-a.Running()
		s.outlive(15 * time.Second)
		if got := s.fired(time.Now().Add(2 * time.Minute)); got != "good" {
			t.Errorf("fired: %q", got)
		}
		end()
	})
}

// TestRecoveredTimersHaveTheTimesOfTheirCommands has commands come hours apart, which are
// read again at once.
func TestRecoveredTimersHaveTheTimesOfTheirCommands(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		stop := s.serve("timers.db", app.Options{})
		due := time.Now().Add(1000 * time.Hour)
		s.schedule("first", due)
		s.outlive(2 * time.Hour)
		s.schedule("second", due)
		s.outlive(3 * time.Hour)
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
		e, err := db.Get(s.t.Context(), acme(call))
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
	if _, err := db.Schedule(s.t.Context(), time.Now(), timer.ScheduleTimer{Key: acme("own"), Version: timer.Version{TimestampMS: 1, CommandID: "own"}, DueAt: time.Now().Add(24 * time.Hour)}); err != nil {
		s.t.Fatal(err)
	}
}
