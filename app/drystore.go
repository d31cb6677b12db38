package app

import (
	"context"
	"time"

	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// A dryStore answers the calls of a recovery as its Store would, and leaves that as it is.
// It remembers the status of each timer that they would have changed.
type dryStore struct {
	Store
	changed map[timer.Key]timer.Status
}

// Schedule returns the results that the commands would have.
func (d *dryStore) Schedule(ctx context.Context, _ time.Time, commands ...timer.ScheduleTimer) (results []timer.Result, err error) {
	for _, c := range commands {
		outcome, err := d.change(ctx, c.Key, func(s timer.Status) (timer.Status, timer.Outcome) { return s.Schedule(c.Version) })
		if err != nil {
			return nil, err
		}
		results = append(results, timer.Result{Outcome: outcome})
	}
	return results, nil
}

// Cancel returns the results that the commands would have.
func (d *dryStore) Cancel(ctx context.Context, _ time.Time, commands ...timer.CancelTimer) (results []timer.Result, err error) {
	for _, c := range commands {
		outcome, err := d.change(ctx, c.Key, func(s timer.Status) (timer.Status, timer.Outcome) { return s.Cancel(c.Version) })
		if err != nil {
			return nil, err
		}
		results = append(results, timer.Result{Outcome: outcome})
	}
	return results, nil
}

// Fired returns how many timers the events would make Reached.
func (d *dryStore) Fired(ctx context.Context, keep time.Duration, events ...timer.DueTimeReached) (changed int, err error) {
	_, events = store.Published(events)
	for _, e := range events {
		outcome, err := d.change(ctx, e.Key, func(s timer.Status) (timer.Status, timer.Outcome) { return s.Fired(e.ReachedAt, keep) })
		if err != nil {
			return changed, err
		}
		if outcome == timer.DidReschedule {
			changed++
		}
	}
	return changed, nil
}

// PauseFiring does nothing.
func (*dryStore) PauseFiring(context.Context, timer.Pause) error { return nil }

// ResumeFiring does nothing.
func (*dryStore) ResumeFiring(context.Context) error { return nil }

// change applies a function to the status of a timer.
func (d *dryStore) change(ctx context.Context, key timer.Key, apply func(timer.Status) (timer.Status, timer.Outcome)) (timer.Outcome, error) {
	before, known := d.changed[key]
	if !known {
		e, err := d.Get(ctx, key)
		if err := ignore(err, timer.ErrNotFound); err != nil {
			return 0, err
		}
		before = timer.Status{State: e.State, Version: e.Version}
	}
	after, outcome := apply(before)
	if after != before {
		d.changed[key] = after
	}
	return outcome, nil
}

// ReplacePositions changes nothing.
func (d *dryStore) ReplacePositions(context.Context, []timer.Position) error { return nil }
