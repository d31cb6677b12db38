package poller_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/poller"
)

func TestNeverEarlyByAPartOfAMillisecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, began := open(t), time.Now()
		p, fired := poll(t, s, realClock, poller.Options{Interval: time.Hour})
		// A poll at the store when the clock is within a millisecond of the due
		// time, and one when it is a whole one before.
		for _, before := range []time.Duration{time.Nanosecond, 500 * time.Microsecond, time.Millisecond} {
			due := began.Add(time.Minute)
			schedule(t, s, before.String()+"-due", due.Add(-before))
			schedule(t, s, before.String()+"-next", due)
			time.Sleep(time.Until(due.Add(-before)))
			p.Sooner(due.Add(-time.Hour))
			for range 2 {
				e := <-fired
				if now := time.Now(); now.Before(e.DueAt) {
					t.Errorf("%s fired %v early", e.Key, e.DueAt.Sub(now))
				}
			}
			began = due
		}
	})
}
