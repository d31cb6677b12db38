package app

import (
	"context"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// A dryStore is the [target] of a replay that changes nothing: it answers as the database
// would, and remembers each timer that would have changed.
type dryStore struct {
	stored   timer.Reader
	changed  map[timer.Key]dryTimer
	versions map[timer.Version]bool // of the commands that would have changed a timer
}

// A dryTimer is a timer that would have changed.
type dryTimer struct {
	timer.Status
	correlationID string
}

func newDryStore(stored timer.Reader) *dryStore {
	return &dryStore{stored, make(map[timer.Key]dryTimer), make(map[timer.Version]bool)}
}

// List returns the timers that a [timer.CancelTimers] selects, on one page.
func (d *dryStore) List(ctx context.Context, f timer.Filter) (all timer.Page, err error) {
	stored := f
	if err := timer.EachPage(ctx, &stored, d.stored.List, func(entries []timer.Entry) error {
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
func (d *dryStore) Schedule(ctx context.Context, _ time.Time, commands ...timer.ScheduleTimer) ([]timer.Result, error) {
	return resultsOf(commands, func(c timer.ScheduleTimer) (timer.Outcome, error) {
		return d.change(ctx, c.Key, c.Version, c.CorrelationID, func(s timer.Status) (timer.Status, timer.Outcome) { return s.Schedule(c.Version) })
	})
}

// Cancel returns the results that the commands would have.
func (d *dryStore) Cancel(ctx context.Context, _ time.Time, commands ...timer.CancelTimer) ([]timer.Result, error) {
	return resultsOf(commands, func(c timer.CancelTimer) (timer.Outcome, error) {
		return d.change(ctx, c.Key, c.Version, "", func(s timer.Status) (timer.Status, timer.Outcome) { return s.Cancel(c.Version) })
	})
}

// resultsOf applies commands one after the other.
func resultsOf[C any](commands []C, apply func(C) (timer.Outcome, error)) (results []timer.Result, err error) {
	for _, c := range commands {
		outcome, err := apply(c)
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
		outcome, err := d.change(ctx, e.Key, timer.Version{}, "", func(s timer.Status) (timer.Status, timer.Outcome) { return s.Fired(e, keep) })
		if err != nil {
			return changed, err
		}
		if outcome == timer.DidFire {
			changed++
		}
	}
	return changed, nil
}

// change applies a function to the status of a timer, which has the correlation id then.
func (d *dryStore) change(
	ctx context.Context, key timer.Key, version timer.Version, correlationID string, apply func(timer.Status) (timer.Status, timer.Outcome),
) (timer.Outcome, error) {
	before, known := d.changed[key]
	if !known {
		e, err := d.stored.Get(ctx, key)
		if err := ignore(err, timer.ErrNotFound); err != nil {
			return 0, err
		}
		before.Status = timer.Status{State: e.State, Version: e.Version}
	}
	after, outcome := apply(before.Status)
	if after != before.Status {
		d.changed[key], d.versions[version] = dryTimer{after, correlationID}, true
	}
	return outcome, nil
}

// setFiring changes nothing.
func (*dryStore) setFiring(context.Context, timer.Pauses) error { return nil }
