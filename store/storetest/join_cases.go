package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

func joinedEnds(s *joinedSuite) {
	s.timers("acme", 2, noon.Add(time.Hour))
	gone := s.begin()
	s.same("in one that is rolled back", s.outcomes(gone.Schedule(s.Context(), noon, schedule(key("acme", "new"), 1, noon))), []timer.Outcome{timer.DidSchedule})
	s.same("in one that is rolled back", s.outcomes(gone.Cancel(s.Context(), noon, cancel(key("acme", "call-000000"), 2), cancel(key("acme", "none"), 2))),
		[]timer.Outcome{timer.DidCancel, timer.DidCancel})
	s.must(gone.Rollback())
	s.countsAreRight()
	s.same("next due", s.nextDue(), noon.Add(time.Hour))
	s.absent("new", "none")

	kept := s.begin()
	s.same("in one that is committed", s.outcomes(kept.Schedule(s.Context(), noon, schedule(key("acme", "new"), 1, noon), schedule(key("acme", "call-000001"), 2, noon))),
		[]timer.Outcome{timer.DidSchedule, timer.DidReschedule})
	s.must(kept.Commit())
	s.same("next due", s.nextDue(), noon)
	s.same("reached", len(s.reach(noon, 10)), 2)
}

func joinedAfterEnd(s *joinedSuite) {
	for _, end := range []func(HostTx) error{HostTx.Commit, HostTx.Rollback} {
		tx := s.begin()
		s.same("before", s.outcomes(tx.Cancel(s.Context(), noon, cancel(key("acme", "before"), 1)))[0] != 0, true)
		s.must(end(tx))
		if _, err := tx.Schedule(s.Context(), noon, schedule(key("acme", "after"), 1, noon)); err == nil {
			s.Error("a transaction that has ended took a command")
		}
		if _, err := tx.Cancel(s.Context(), noon, cancel(key("acme", "after"), 1)); err == nil {
			s.Error("a transaction that has ended took a command")
		}
	}
	s.absent("after")
}

func joinedEndedContext(s *joinedSuite) {
	ctx, end := context.WithCancel(s.Context())
	end()
	tx := s.begin()
	_, err := tx.Schedule(ctx, noon, schedule(key("acme", "call-1"), 1, noon))
	s.passes(err)
	_, err = tx.Cancel(ctx, noon, cancel(key("acme", "call-1"), 1))
	s.passes(err)
	s.same("with another", s.outcomes(tx.Schedule(s.Context(), noon, schedule(key("acme", "call-2"), 1, noon))), []timer.Outcome{timer.DidSchedule})
	s.must(tx.Commit())
	s.absent("call-1")
	s.same("state", s.get(key("acme", "call-2")).State, timer.Scheduled)
}

func joinedReceipts(s *joinedSuite) {
	gone := s.begin()
	s.outcomes(gone.Schedule(s.Context(), noon, wanting("a", 1, noon)))
	s.must(gone.Rollback())
	s.countsAreRight()
	s.same("rolled back", len(s.receipts()), 0)
	s.schedule(wanting("b", 1, noon)) // which the store remembers
	kept := s.begin()
	s.outcomes(kept.Schedule(s.Context(), noon, wanting("a", 1, noon)))
	s.must(kept.Commit())
	s.schedule(wanting("c", 1, noon))
	var all []string
	for some := s.receipts(); len(some) > 0; some = s.receipts() {
		all = append(all, some...)
	}
	s.same("committed", all, []string{"b command-1 TimerScheduled ", "a command-1 TimerScheduled ", "c command-1 TimerScheduled "})
}

func joinedRefused(s *joinedSuite) {
	tx := s.begin()
	s.must(tx.Exec(s.Context(), `INSERT INTO service_calls (tenant_id, service_call_id) VALUES ('acme', 'booked')`))
	for range 2 { // the store learns from the first that there is a foreign key
		results, err := tx.Schedule(s.Context(), noon, single("none"), single("booked"))
		s.must(err)
		s.same("refused", errors.Is(results[0].Err, timer.ErrInvalid), true)
		s.must(results[1].Err)
	}
	s.must(tx.Exec(s.Context(), `INSERT INTO service_calls (tenant_id, service_call_id) VALUES ('acme', 'second')`))
	s.same("goes on", s.outcomes(tx.Schedule(s.Context(), noon, single("second"))), []timer.Outcome{timer.DidSchedule})
	s.must(tx.Commit())
	s.absent("none")
	s.same("timers", s.stats().Scheduled, int64(2))

	gone := s.begin() // with its service call
	s.must(gone.Exec(s.Context(), `INSERT INTO service_calls (tenant_id, service_call_id) VALUES ('acme', 'gone')`))
	s.outcomes(gone.Schedule(s.Context(), noon, single("gone")))
	s.must(gone.Rollback())
	s.absent("gone")
}

// absent checks that there are no timers for service calls of acme.
func (s *suite) absent(calls ...timer.ServiceCallID) {
	s.Helper()
	for _, call := range calls {
		if e, err := s.store.Get(s.Context(), key("acme", call)); !errors.Is(err, timer.ErrNotFound) {
			s.Errorf("%s is there: %+v, %v", call, e, err)
		}
	}
}

func (s *suite) nextDue() time.Time {
	s.Helper()
	due, err := s.store.NextDue(s.Context(), time.Time{})
	s.must(err)
	return due
}
