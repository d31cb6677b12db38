package postgres

import (
	"context"
	"sync"
	"time"
)

// fullInterval is how often the index is read from its beginning, to find timers below the
// watermark. Other instances put them there: timers that were due at once when they were
// scheduled, or that were skipped because another transaction was changing them.
const fullInterval = time.Second

// A watermark is the due time from which idx_timer_schedules_due_at is read. A timer that
// fires leaves a dead entry at the beginning of the index until vacuum runs. A million timers
// that were due at once leave a million dead entries, and every poll would step over them:
// after 300,000 a poll took 16 ms instead of 0.4 (measured 2026-11).
//
// The watermark is the earliest due time that was found last: no timer that this instance
// knows of is below it.
type watermark struct {
	began time.Time // where since counts from

	mu    sync.Mutex
	at    time.Time     // the watermark; zero: the beginning of the index
	noted time.Time     // earliest due time that was set since the running read began; zero: none
	full  time.Duration // when the last read from the beginning began, since began

	// These are the earliest due times that were set in transactions of hosts, whose end this
	// instance does not see: since the last read from the beginning, and between that read
	// and the one before. Zero is none.
	open, opened time.Time
}

// NextDue returns the earliest due time after the one given, of all Scheduled timers. If
// another instance schedules a timer before the last time found, NextDue sees it within a
// second.
func (s *Store) NextDue(ctx context.Context, after time.Time) (time.Time, error) {
	if !after.IsZero() {
		return s.nextDue(ctx, after, s.watermark.get())
	}
	due, err := s.nextDue(ctx, time.Time{}, s.watermark.start())
	if err == nil && !due.IsZero() {
		s.watermark.found(due)
	}
	return due, err
}

// start returns the due time from which to search the earliest one.
func (w *watermark) start() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noted = time.Time{}
	now := time.Since(w.began) //nolint:forbidigo // for the pace, not for timers
	if w.at.IsZero() || now-w.full >= fullInterval {
		w.full = now
		w.open, w.opened = time.Time{}, w.open
		return time.Time{}
	}
	return w.at
}

// found records the earliest due time that a read has found.
func (w *watermark) found(due time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = sooner(sooner(due, w.noted), sooner(w.open, w.opened))
}

// sooner returns the sooner of two times; zero is none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// set records that a timer was scheduled, after the commit.
func (w *watermark) set(due time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if due.Before(w.at) {
		w.at = due
	}
	w.noted = sooner(w.noted, due)
}

// expect records that a timer was scheduled in a transaction of a host, which may commit at
// any time from now on. If that takes longer than fullInterval, a read from the beginning
// finds the timer.
func (w *watermark) expect(due time.Time) {
	w.set(due)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = sooner(w.open, due)
}

// get returns the due time from which a claim reads.
func (w *watermark) get() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at
}
