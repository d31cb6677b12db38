package postgres_test

import (
	"fmt"
	"testing"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/timer"
)

// TestForgetDeletesWhatItWaitedFor has timers reached by a transaction that commits
// while Forget waits for them: they are forgotten as all others are.
func TestForgetDeletesWhatItWaitedFor(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.URL(t), relaxed)
	var calls []timer.ServiceCallID
	for i := range 20 {
		calls = append(calls, timer.ServiceCallID(fmt.Sprintf("call-%02d", i)))
	}
	scheduled(t, s, calls...)
	forgotten := make(chan timer.Counts, 1)
	if err := s.Update(t.Context(), func(tx timer.Tx) error {
		if _, err := tx.Reach(t.Context(), noon, 5, nil); err != nil {
			return err
		}
		go func() {
			c, err := s.Forget(t.Context(), "acme", 20)
			if err != nil {
				t.Error(err)
			}
			forgotten <- c
		}()
		waits(t, s.DB())
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got, want := <-forgotten, (timer.Counts{Scheduled: 15, Reached: 5}); got != want {
		t.Errorf("forgot %+v, want %+v", got, want)
	}
}
