package app

import (
	"context"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// A dryStore answers the calls of a recovery as the store would, and leaves that as it is.
// It remembers each timer that they would have changed.
type dryStore struct {
	restored
	timers  timer.Reader
	changed map[timer.Key]dryTimer
}

// A dryTimer is a timer that would have changed.
type dryTimer struct {
	timer.Status
	correlationID string
}

// List returns the timers that a [timer.CancelTimers] selects, on one page.
func (d *dryStore) List(ctx context.Context, f timer.Filter) (all timer.Page, err error) {
	stored := f
	if err := timer.EachPage(ctx, &stored, d.timers.List, func(entries []timer.Entry) error {
		for _, e := range entries {
			if _, changed := d.changed[e.Key]; !changed {
				all.Entries = append(all.Entries, e)
			}
		}
		return nil
	}); err != nil {
		return timer.Page{}, err
	}
	for key, t := range d.changed {
		if key.TenantID == f.TenantID && t.State == f.State && strings.HasPrefix(string(key.ServiceCallID), f.Prefix) &&
			(f.CorrelationID == "" || t.correlationID == f.CorrelationID) {
			all.Entries = append(all.Entries, timer.Entry{Key: key, Version: t.Version, State: t.State})
		}
	}
	return all, nil
}

// Schedule returns the results that the commands would have.
func (d *dryStore) Schedule(ctx context.Context, _ time.Time, commands ...timer.ScheduleTimer) (results []timer.Result, err error) {
	for _, c := range commands {
		outcome, err := d.change(ctx, c.Key, c.CorrelationID, func(s timer.Status) (timer.Status, timer.Outcome) { return s.Schedule(c.Version) })
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
		outcome, err := d.change(ctx, c.Key, "", func(s timer.Status) (timer.Status, timer.Outcome) { return s.Cancel(c.Version) })
		if err != nil {
			return nil, err
		}
		results = append(results, timer.Result{Outcome: outcome})
	}
	return results, nil
}

// Fired returns how many timers the events would make Reached or Expired.
func (d *dryStore) Fired(ctx context.Context, keep time.Duration, events ...timer.DueTimeReached) (changed int, err error) {
	_, events = store.Published(events)
	for _, e := range events {
		outcome, err := d.change(ctx, e.Key, "", func(s timer.Status) (timer.Status, timer.Outcome) { return s.Fired(e, keep) })
		if err != nil {
			return changed, err
		}
		if outcome == timer.DidFire {
			changed++
		}
	}
	return changed, nil
}

// PauseFiring does nothing.
func (*dryStore) PauseFiring(context.Context, timer.Pause) error { return nil }

// ResumeFiring does nothing.
func (*dryStore) ResumeFiring(context.Context, timer.TenantID) error { return nil }

// change applies a function to the status of a timer, which has the correlation id then.
func (d *dryStore) change(ctx context.Context, key timer.Key, correlationID string, apply func(timer.Status) (timer.Status, timer.Outcome)) (timer.Outcome, error) {
	before, known := d.changed[key]
	if !known {
		e, err := d.timers.Get(ctx, key)
		if err := ignore(err, timer.ErrNotFound); err != nil {
			return 0, err
		}
		before.Status = timer.Status{State: e.State, Version: e.Version}
	}
	after, outcome := apply(before.Status)
	if after != before.Status {
		d.changed[key] = dryTimer{after, correlationID}
	}
	return outcome, nil
}

// ReplacePositions changes nothing.
func (d *dryStore) ReplacePositions(context.Context, []timer.Position) error { return nil }
