package postgres

import (
	"context"
	"sync"
	"time"
)

// fullLook is how often timers are looked for that others put below the floor:
// due at once when they were scheduled, or left alone because somebody else was
// changing them.
const fullLook = time.Second

// A floor is where the looks at idx_timer_schedules_due_at begin. A timer that
// fires leaves a dead entry at its beginning until vacuum comes, and a million that
// were due at once leave a million, over which every look would step: after
// 300,000 it took 16 ms instead of 0.4 (measured 2026-11).
//
// The floor is the earliest due time that was found last. Nothing that this
// instance knows of is below it.
type floor struct {
	began time.Time // any moment

	mu    sync.Mutex
	at    time.Time     // zero: begin at the beginning
	noted time.Time     // earliest due time that was set since the look at work began; zero: none
	full  time.Duration // when a look began at the beginning, since began
}

// NextDue returns the earliest due time after the one given, of all Scheduled
// timers. What another instance set meanwhile to a time before the last one found
// is seen within a second.
func (s *Store) NextDue(ctx context.Context, after time.Time) (time.Time, error) {
	if !after.IsZero() {
		return s.nextDue(ctx, after, s.floor.get())
	}
	due, err := s.nextDue(ctx, time.Time{}, s.floor.start())
	if err == nil && !due.IsZero() {
		s.floor.found(due)
	}
	return due, err
}

// start returns where a look for the earliest due time is to begin.
func (f *floor) start() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.noted = time.Time{}
	now := time.Since(f.began) //nolint:forbidigo // for the pace, not for timers
	if f.at.IsZero() || now-f.full >= fullLook {
		f.full = now
		return time.Time{}
	}
	return f.at
}

// found notes the earliest due time that a look has found.
func (f *floor) found(due time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at = due
	if !f.noted.IsZero() && f.noted.Before(due) {
		f.at = f.noted
	}
}

// set notes that a timer was scheduled, after the commit.
func (f *floor) set(due time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if due.Before(f.at) {
		f.at = due
	}
	if f.noted.IsZero() || due.Before(f.noted) {
		f.noted = due
	}
}

// get returns where a claim is to begin.
func (f *floor) get() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at
}
