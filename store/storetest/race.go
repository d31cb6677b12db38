package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// commandsRaceReach reschedules and cancels timers while they become due. What a
// command returned must be what happened: after DidReschedule only the new due
// time may fire, after DidCancel none, after WasReached the old one has fired.
func commandsRaceReach(s *suite) {
	const each = 300
	s.timers("moved", each, noon)
	s.timers("canceled", each, noon)
	call := func(i int) timer.ServiceCallID { return timer.ServiceCallID(fmt.Sprintf("call-%06d", i)) }
	later := noon.Add(24 * time.Hour)

	returned := make(map[timer.Key]timer.Outcome)
	var mu sync.Mutex
	var racing sync.WaitGroup
	for _, tenant := range []timer.TenantID{"moved", "canceled"} {
		racing.Go(func() {
			for i := range each {
				k := key(tenant, call(i))
				var outcome timer.Outcome
				if tenant == "moved" {
					outcome = s.schedule(schedule(k, 2, later))[0]
				} else {
					outcome = s.cancel(cancel(k, 2))[0]
				}
				mu.Lock()
				returned[k] = outcome
				mu.Unlock()
			}
		})
	}
	fired := make(map[timer.Key]time.Time)
	racing.Go(func() {
		for range each { // two commands for each timer that is taken
			for _, e := range s.reach(noon.Add(time.Hour), 1) {
				fired[e.Key] = e.DueAt
			}
		}
	})
	racing.Wait()

	won := 0
	for k, outcome := range returned {
		due, reached := fired[k]
		switch outcome {
		case timer.DidReschedule, timer.DidCancel:
			won++
			if reached {
				s.Errorf("%s: the command returned %s, but the timer fired as due at %v", k, outcome, due)
			}
		case timer.WasReached:
			if !reached {
				s.Errorf("%s: the command returned %s, but nothing fired", k, outcome)
			}
		default:
			s.Errorf("%s: the command returned %s", k, outcome)
		}
	}
	if won == 0 || won == len(returned) {
		s.Logf("no race in this run: commands won %d of %d", won, len(returned))
	}
	for _, e := range s.reach(later, 2*each) {
		if returned[e.Key] != timer.DidReschedule && fired[e.Key].IsZero() && returned[e.Key] != timer.WasReached {
			s.Errorf("%s fired after %s", e.Key, returned[e.Key])
		}
		if returned[e.Key] == timer.DidReschedule && !e.DueAt.Equal(later) {
			s.Errorf("%s fired as due at %v, want %v", e.Key, e.DueAt, later)
		}
	}
}
