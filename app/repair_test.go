package app_test

import (
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// TestRepairsDamagedTimers changes rows behind the service's back, as a bit that flips
// does: a due time that is too early, and a key.
func TestRepairsDamagedTimers(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		db := s.open("timers.db")
		defer db.Close()
		stop := s.serveOn(db, app.Options{PollingInterval: time.Second})
		defer stop()
		began := time.Now()
		s.schedule("due-time", began.Add(2*time.Minute))
		s.schedule("key", began.Add(time.Minute))
		s.schedule("sound", began.Add(time.Minute))
		s.settle()
		s.damage(db, `UPDATE timer_schedules SET due_at = due_at - 60000 WHERE service_call_id = 'due-time'`)
		s.damage(db, `UPDATE timer_schedules SET service_call_id = 'kez' WHERE service_call_id = 'key'`)
		if got := s.fired(began.Add(3 * time.Minute)); got != "sound key due-time" {
			t.Errorf("fired: %s", got)
		}
		rows, err := db.Damaged(t.Context(), 0, 10)
		if err != nil || len(rows) != 1 || rows[0].ServiceCallID != "kez" { // nobody can say whether there was such a timer
			t.Errorf("damaged rows that are left: %+v, %v", rows, err)
		}
		if log := s.log.Take(); strings.Count(log, "were scheduled again by their commands") != 1 {
			t.Errorf("log:\n%s", log)
		}
	})
}

// TestARepairBringsNoOtherTimerBack has a damaged row, beside a tenant that was forgotten and a
// timer that has fired and was purged: the broker still has the commands of all.
func TestARepairBringsNoOtherTimerBack(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		db := s.open("timers.db")
		defer db.Close()
		a := s.app(db, app.Options{PollingInterval: time.Second, Retention: time.Minute})
		stop := running(t, "app", a.Run)
		defer stop()
		<-a.Running()
		s.settle()
		began := time.Now()
		id := s.next()
		s.publish(id, envelope.Schedule(timer.ScheduleTimer{
			Key:     timer.Key{TenantID: "left", ServiceCallID: "forgotten"},
			Version: timer.Version{TimestampMS: began.UnixMilli(), CommandID: id}, DueAt: began.Add(2 * time.Hour),
		}))
		s.schedule("done", began.Add(time.Second))
		s.schedule("damaged", began.Add(2*time.Hour))
		s.settle()
		if _, err := a.Forget(t.Context(), "left"); err != nil {
			t.Fatal(err)
		}
		if got := s.fired(began.Add(time.Hour)); got != "done" {
			t.Errorf("fired: %s", got)
		}
		s.damage(db, `UPDATE timer_schedules SET due_at = due_at - 60000 WHERE service_call_id = 'damaged'`)
		if got := s.fired(began.Add(3 * time.Hour)); got != "damaged" {
			t.Errorf("fired then: %s, want what was damaged alone", got)
		}
	})
}

// damage changes rows, as no part of the service does.
func (s *site) damage(db *sqlite.Store, statement string) {
	s.t.Helper()
	result, err := db.DB().Exec(statement)
	if err != nil {
		s.t.Fatal(err)
	}
	if n, err := result.RowsAffected(); n != 1 || err != nil {
		s.t.Fatalf("%d rows, %v", n, err)
	}
}
