package storetest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

func updateCommits(s *suite) {
	s.timers("acme", 3, noon)
	s.same("fired", len(s.fire(noon.Add(time.Hour), 2)), 2)
	s.same("outbox", len(s.head(0, 10)), 2)
	st := s.stats()
	s.same("states", []int64{st.Scheduled, st.Reached}, []int64{1, 2})
}

// untouched checks that nothing of a transaction that fired remained, and that
// the store goes on.
func (s *suite) untouched() {
	s.Helper()
	st := s.stats()
	s.same("scheduled, reached, outbox", []int64{st.Scheduled, st.Reached, st.Outbox}, []int64{3, 0, 0})
	s.same("fired later", len(s.fire(noon.Add(time.Hour), 10)), 3)
	s.same("outbox later", len(s.head(0, 10)), 3)
}

func updateFails(s *suite) {
	s.timers("acme", 3, noon)
	ours := errors.New("ours")
	err := s.store.Update(s.Context(), func(tx timer.Tx) error {
		events, err := fire(s.Context(), tx, noon.Add(time.Hour), 10)
		s.must(err)
		s.same("fired", len(events), 3)
		return ours
	})
	if !errors.Is(err, ours) {
		s.Errorf("update: %v, want what fn returned", err)
	}
	s.untouched()
}

func updatePanics(s *suite) {
	s.timers("acme", 3, noon)
	func() {
		defer func() { s.same("panic", recover(), any("ours")) }()
		_ = s.store.Update(s.Context(), func(tx timer.Tx) error {
			_, err := fire(s.Context(), tx, noon.Add(time.Hour), 10)
			s.must(err)
			panic("ours")
		})
	}()
	s.untouched()
}

func updateEnds(s *suite) {
	s.timers("acme", 3, noon)
	ctx, end := context.WithCancel(s.Context())
	called := false
	err := s.store.Update(ctx, func(tx timer.Tx) error {
		called = true
		_, err := fire(ctx, tx, noon.Add(time.Hour), 10)
		s.must(err)
		end()
		return nil
	})
	s.same("called", called, true)
	s.passes(err)
	s.passes(s.store.Update(ctx, func(timer.Tx) error {
		s.Error("fn was called though the context had ended")
		return nil
	}))
	s.untouched()
}

func readsDoNotWait(s *suite) {
	s.timers("acme", 3, noon)
	s.fire(noon, 1)
	inside, leave := make(chan struct{}), make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		s.check(s.store.Update(s.Context(), func(tx timer.Tx) error {
			_, err := fire(s.Context(), tx, noon.Add(time.Hour), 10)
			close(inside)
			<-leave
			return err
		}))
	})
	<-inside
	next, err := s.store.NextDue(s.Context(), time.Time{})
	s.check(err)
	s.same("next due", next, noon.Add(time.Millisecond))
	rows, err := s.store.Head(s.Context(), 0, 10)
	s.check(err)
	s.same("outbox", len(rows), 1)
	entry, err := s.store.Get(s.Context(), key("acme", "call-000002"))
	s.check(err)
	s.same("state", entry.State, timer.Scheduled)
	close(leave)
	writer.Wait()
	s.same("afterwards", len(s.head(0, 10)), 3)
}
