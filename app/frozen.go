package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/timer"
)

// verify returns an error that wraps [timer.ErrFatal] and [errAsk] if a command that was taken
// before, an event, or the mark of a forgotten tenant would change the database. It reads and
// applies them as a recovery does, to a database that takes no change.
func (r *recovery) verify(ctx context.Context, p reading) error {
	db := frozenDatabase{r.db, r.inbox}
	frozen := recovery{
		db: database{db, db, db, r.db}, inbox: db, routing: r.routing, history: r.history, handlers: r.handlers, clock: r.clock, keep: r.keep,
	}
	taken := p
	taken.spans = slices.Clone(p.spans)
	for i := range taken.spans {
		if s := &taken.spans[i]; s.Kind == broker.Commands {
			s.upTo = s.Floor
		}
	}
	_, err := frozen.replay(ctx, taken, func(Recovered, int64) {})
	return err
}

// A frozenDatabase returns an error for the first change of a timer, and ignores changes of the inbox.
type frozenDatabase struct {
	database
	timer.Inbox
}

// unchanged returns the outcome of a command or an event that does not change its timer.
func (f frozenDatabase) unchanged(ctx context.Context, what string, key timer.Key, apply func(timer.Status) (timer.Status, timer.Outcome)) (timer.Result, error) {
	e, err := f.Get(ctx, key)
	if ignore(err, timer.ErrNotFound) != nil {
		return timer.Result{}, err
	}
	before := timer.Status{State: e.State, Version: e.Version}
	after, outcome := apply(before)
	if after != before {
		return timer.Result{}, fmt.Errorf("%w: the database lacks %s, such as that of %s: %w", timer.ErrFatal, what, key, errAsk)
	}
	return timer.Result{Outcome: outcome}, nil
}

// Schedule returns the results of commands that change no timer.
func (f frozenDatabase) Schedule(ctx context.Context, _ time.Time, commands ...timer.ScheduleTimer) (results []timer.Result, err error) {
	for i := range commands {
		c := &commands[i]
		apply := func(s timer.Status) (timer.Status, timer.Outcome) { return s.Schedule(c.Version) }
		if c.Moves != (timer.Version{}) {
			apply = func(s timer.Status) (timer.Status, timer.Outcome) { return s.Move(c) }
		}
		result, err := f.unchanged(ctx, "commands that it had", c.Key, apply)
		if err != nil {
			return nil, err
		}
		results = append(results, result)
	}
	return results, nil
}

// Cancel returns the results of commands that change no timer.
func (f frozenDatabase) Cancel(ctx context.Context, _ time.Time, commands ...timer.CancelTimer) (results []timer.Result, err error) {
	for _, c := range commands {
		result, err := f.unchanged(ctx, "commands that it had", c.Key, func(s timer.Status) (timer.Status, timer.Outcome) { return s.Cancel(c.Version) })
		if err != nil {
			return nil, err
		}
		results = append(results, result)
	}
	return results, nil
}

// Fired returns nil for events that change no timer.
func (f frozenDatabase) Fired(ctx context.Context, keep time.Duration, events ...timer.DueTimeReached) (changed int, err error) {
	for _, e := range events {
		if _, err := f.unchanged(ctx, "events that it had published", e.Key, func(s timer.Status) (timer.Status, timer.Outcome) { return s.Fired(e, keep) }); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// Forget is called for a tenant of which the database does not know that it was forgotten.
func (frozenDatabase) Forget(_ context.Context, tenant timer.TenantID, _ time.Time, _ int) (timer.Counts, error) {
	return timer.Counts{}, fmt.Errorf("%w: the database does not know that tenant %s was forgotten: %w", timer.ErrFatal, tenant, errAsk)
}

// Decide ignores a decision, since none but that to forget a tenant changes a timer.
func (frozenDatabase) Decide(context.Context, timer.Decision) error { return nil }

// PutInbox ignores messages.
func (frozenDatabase) PutInbox(context.Context, ...timer.InboxMessage) error { return nil }

// DeleteInbox ignores messages.
func (frozenDatabase) DeleteInbox(context.Context, ...int64) error { return nil }
