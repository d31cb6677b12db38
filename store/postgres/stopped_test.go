package postgres_test

import (
	"errors"
	"testing"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/timer"
)

// TestStoppedInstanceLetsGo stops one instance in the middle of a transaction.
// Another one waits for its rows, and has them in the end; nothing of the first
// one remains.
func TestStoppedInstanceLetsGo(t *testing.T) {
	t.Parallel()
	place := pgtest.URL(t)
	a, b := open(t, place, relaxed), open(t, place, relaxed)
	scheduled(t, a, "call-1")
	err := a.Update(t.Context(), func(tx timer.Tx) error {
		entries, err := tx.Reach(t.Context(), noon, 10, nil)
		if err != nil || len(entries) != 1 {
			t.Errorf("reached %d, %v", len(entries), err)
		}
		// It does nothing more until the server has given up on it.
		outcomes, err := b.Cancel(t.Context(), noon, cancel("call-1"))
		if err != nil || outcomes[0].Outcome != timer.DidCancel {
			t.Errorf("the other one got %v, %v, want that it canceled", outcomes, err)
		}
		return tx.Emit(t.Context(), entries[0].Event())
	})
	if err == nil || errors.Is(err, timer.ErrFatal) || errors.Is(err, timer.ErrInvalid) {
		t.Errorf("the stopped one: %v, want an error that may pass", err)
	}
	if e := get(t, b, "call-1"); e.State != timer.Canceled {
		t.Errorf("state %s, want Canceled", e.State)
	}
	if rows, err := b.Head(t.Context(), 0, 10); err != nil || len(rows) != 0 {
		t.Errorf("outbox: %v, %v, want nothing", rows, err)
	}
	scheduled(t, a, "call-2") // it goes on
}
