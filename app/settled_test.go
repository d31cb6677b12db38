package app_test

import (
	"errors"
	"fmt"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// settle lets everything heal, and time go by until all has come to rest: at
// most for longest, and for a while more in which nothing may happen. It returns
// what is wrong then.
func (w *world) settle(longest time.Duration) error {
	w.failures.heal()
	if w.quotas != nil {
		w.use(quota.Config{})
	}
	if w.pauses {
		w.pause("", false)
		w.pause("tenant-0", false)
	}
	const while = 2 * time.Minute
	var wrong error
	for rest := longest; rest > 0; rest -= while {
		time.Sleep(while)
		synctest.Wait()
		w.revive()
		if err := w.invariants(); err != nil {
			return fmt.Errorf("after the last step: %w", err)
		}
		settled := wrong == nil && rest < longest
		if wrong = w.settled(); wrong == nil && settled {
			return nil
		}
	}
	return wrong
}

// settled checks what must hold when everything healed and all time is over:
// nothing is lost, and the database agrees with what was published.
func (w *world) settled() error {
	if n := w.broker.unacked(); n > 0 {
		return fmt.Errorf("%d commands were never acked", n)
	}
	for id, p := range w.poison {
		if p.deadLetter == "" {
			return fmt.Errorf("%s was acked, but is no dead letter", id)
		}
	}
	stats, err := w.store.Stats(w.t.Context(), "")
	if err != nil {
		return err
	}
	if stats.Outbox != 0 || stats.Parked != 0 {
		return fmt.Errorf("%d events wait, %d are parked", stats.Outbox, stats.Parked)
	}
	for key, commands := range w.byKey {
		newest := commands[0]
		for _, c := range commands {
			if c.version().Compare(newest.version()) > 0 {
				newest = c
			}
		}
		if err := w.settledKey(key, newest); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

func (w *world) settledKey(key timer.Key, newest sentCommand) error {
	_, fired := w.fired[key]
	entry, err := w.store.Get(w.t.Context(), key)
	if err != nil {
		return err
	}
	switch {
	case fired && w.marked[key] != "" && w.marked[key] != entry.State:
		return fmt.Errorf("is %s, but its event says %s", entry.State, w.marked[key])
	case fired != entry.State.Marked():
		return fmt.Errorf("is %s, but fired = %v", entry.State, fired)
	case newest.schedule != nil && !fired:
		return fmt.Errorf("lost: %s, due at %v", entry.State, newest.schedule.DueAt)
	case newest.cancel != nil && entry.State == timer.Scheduled:
		return errors.New("is Scheduled, but its newest command cancels it")
	case !fired && entry.Version != newest.version():
		return fmt.Errorf("has version %v, want the newest, %v", entry.Version, newest.version())
	}
	return nil
}
