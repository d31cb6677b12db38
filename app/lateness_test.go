package app_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/timer"
)

// TestLatenessCountsToTheAck has a broker that takes 40 seconds to ack an event of
// a timer that fires in time.
func TestLatenessCountsToTheAck(t *testing.T) {
	t.Parallel()
	const hangs = 40 * time.Second
	if _, err := migrated(); err != nil {
		t.Fatal(err)
	}
	path := t.TempDir() + "/timers.db"
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(48 * time.Hour) // bubbles begin with the year 2000, before which nothing may be due
		s := unsynced(t, path)
		defer s.DB().Close()
		defer s.Close()
		due := time.Now().Add(time.Minute)
		key := timer.Key{TenantID: "acme", ServiceCallID: "call"}
		if _, err := s.Schedule(t.Context(), time.Now(), timer.ScheduleTimer{Key: key, Version: timer.Version{TimestampMS: 1, CommandID: "c"}, DueAt: due}); err != nil {
			t.Fatal(err)
		}
		b := newSimBroker(1, nil)
		b.delay = hangs
		var logs bytes.Buffer
		counters := new(app.Counters)
		a, err := app.New(s, b, slog.New(slog.NewTextHandler(&logs, nil)), app.Options{Counters: counters})
		if err != nil {
			t.Fatal(err)
		}
		stop := running(t, "app", a.Run)
		time.Sleep(10 * time.Minute)
		stop()
		entry, err := s.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if late := entry.ReachedAt.Sub(due); late > time.Second {
			t.Errorf("the timer fired %v late", late)
		}
		if got := counters.Lateness(); got.Events != 1 || got.Max < hangs || got.Max > hangs+time.Second {
			t.Errorf("%d events, the latest %v late, want one that was %v late", got.Events, got.Max, hangs)
		}
		if !strings.Contains(logs.String(), `msg="events were published late" count=1 first_late_by=40`) {
			t.Errorf("nothing says so:\n%s", logs.String())
		}
	})
}
