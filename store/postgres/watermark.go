package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/internal/pause"
)

// fullInterval is the shortest time between two reads of the whole index, to find timers
// below the watermark. Other instances put them there: timers that were due at once when they
// were scheduled, or that were skipped because another transaction was changing them.
const fullInterval = time.Second

// fullWait is how long NextDue waits for a read from the beginning. While another transaction
// holds a snapshot, that read takes long: it steps over all timers that have fired since the
// snapshot was taken.
const fullWait = 20 * time.Millisecond

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
	full  time.Duration // when the next read from the beginning is due, since began

	// These are the earliest due times that were set in transactions of hosts, whose end this
	// instance does not see: since the last read from the beginning, and between that read
	// and the one before. Zero is none.
	open, opened time.Time
}

// NextDue returns the earliest due time after the one given, of all Scheduled timers. If
// another instance schedules a timer before the last time found, NextDue sees it within a
// second, or up to a minute later if a read of the whole index takes long.
func (s *Store) NextDue(ctx context.Context, after time.Time) (time.Time, error) {
	if !after.IsZero() {
		return s.nextDue(ctx, after, s.watermark.get())
	}
	if s.watermark.start() {
		read := make(chan struct{})
		s.working.Go(func() {
			defer close(read)
			s.readAll(ctx)
		})
		wait := time.NewTimer(fullWait)
		defer wait.Stop()
		select {
		case <-read:
		case <-wait.C:
		}
	}
	due, err := s.nextDue(ctx, time.Time{}, s.watermark.get())
	if err == nil && !due.IsZero() {
		s.watermark.found(due)
	}
	return due, err
}

// readAll reads the index from its beginning, and lowers the watermark to the due time that it finds. If
// the read fails, it is tried again after its rest.
func (s *Store) readAll(ctx context.Context) {
	began := time.Now() //nolint:forbidigo // for the pace, not for timers
	due, err := s.nextDue(ctx, time.Time{}, time.Time{})
	switch {
	case err == nil && !due.IsZero():
		s.watermark.set(due)
	case err != nil && ctx.Err() == nil:
		s.opt.Log.WarnContext(ctx, "timers that other instances left can't be looked for, will retry", "error", err)
	}
	s.watermark.rest(time.Since(began)) //nolint:forbidigo // as above
}

// start is called before the index is searched from the watermark on. It reports whether to
// also read the index from its beginning. While there is no watermark, the search
// itself does so.
func (w *watermark) start() (full bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noted = time.Time{}
	now := time.Since(w.began) //nolint:forbidigo // for the pace, not for timers
	if now < w.full {
		return false
	}
	w.open, w.opened = time.Time{}, w.open
	if w.at.IsZero() {
		w.full = now + fullInterval
		return false
	}
	w.full = now + limit // the read ends after that time at the latest, and calls rest
	return true
}

// rest says when the next read from the beginning is due, after one that took some time.
func (w *watermark) rest(took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.full = time.Since(w.began) + pause.Rest(took, fullInterval-took) //nolint:forbidigo // as above
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

// get returns the due time from which the index is read.
func (w *watermark) get() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at
}
