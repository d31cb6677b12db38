package app_test

import (
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

// fill makes a database that is not empty.
func (s *site) fill(name string) {
	s.t.Helper()
	db := s.open(name)
	defer db.Close()
	if _, err := db.Schedule(s.t.Context(), time.Now(), timer.ScheduleTimer{Key: acme("own"), Version: timer.Version{TimestampMS: 1, CommandID: "own"}, DueAt: time.Now().Add(24 * time.Hour)}); err != nil {
		s.t.Fatal(err)
	}
}
