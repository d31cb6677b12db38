package store

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// Fired brings in events that were published, as [timer.Recoverer] says. Step applies those from
// first to end and has the events with the ids leave the outbox, in one transaction. It locks
// timers as commands do. An event whose timer the database refuses, such as by a trigger of the
// host, is left out, which is logged.
func Fired(
	ctx context.Context, log *slog.Logger, keep time.Duration, events []timer.DueTimeReached, step func(a *Application, ids []string, first, end int) error,
) (changed int, err error) {
	if len(events) == 0 {
		return 0, nil
	}
	a, ids := fired(keep, events)
	apply := func(first, end int) error { return step(a, ids, first, end) }
	results, err := a.Apply(apply, nil)
	refused := slices.DeleteFunc(slices.Clone(results), func(r timer.Result) bool { return r.Err == nil })
	if len(refused) > 0 {
		log.WarnContext(ctx, "the database refuses timers whose events were published: left out", "events", len(refused), "first_error", refused[0].Err)
		err = apply(0, 0) // leave the outbox all the same
	}
	if err != nil {
		return 0, err
	}
	for _, r := range results {
		if r.Outcome == timer.DidFire {
			changed++
		}
	}
	return changed, nil
}

// fired returns the application of events that were published, and their ids. Of each key the
// newest event acts as a command that makes the timer Reached or Expired. An event whose
// service call does not exist, where a foreign key requires one, has no effect.
func fired(keep time.Duration, all []timer.DueTimeReached) (a *Application, ids []string) {
	ids, events := published(all)
	return &Application{
		Kind: Events, Doing: "bring in published events", Results: make([]timer.Result, len(events)),
		key: func(i int) timer.Key { return events[i].Key },
		apply: func(before timer.Status, i int) (timer.Status, timer.Outcome) {
			return before.Fired(events[i], keep)
		},
		row: func(r *Row, i int) {
			e := &events[i]
			r.DueAt, r.ExpiresAt, r.ReachedAt = e.DueAt.UnixMilli(), expiry(e.ExpiresAt), e.ReachedAt.UnixMilli()
			r.CommandAt, r.CommandID, r.RegisteredAt = r.ReachedAt, e.ID, r.ReachedAt
			r.CorrelationID, r.TraceParent, r.TraceState, r.Data = e.CorrelationID, e.Trace.Parent, e.Trace.State, e.Data
		},
		message:  singly,
		missing:  timer.WasReached,
		receipts: func([]timer.Result, int, int) []timer.Receipt { return nil },
	}, ids
}

// published returns the ids of events that were published, and of each key the newest
// event, in the order of keys, with its id, and times as stores keep them.
func published(events []timer.DueTimeReached) (ids []string, newest []timer.DueTimeReached) {
	ids, newest = make([]string, len(events)), slices.Clone(events)
	for i := range newest {
		e := &newest[i]
		if e.ID == "" {
			e.ID = envelope.EventID(*e)
		}
		ids[i] = e.ID
		e.DueAt, e.ReachedAt = timer.RoundUp(e.DueAt), timer.RoundDown(e.ReachedAt)
		if e.ReachedAt.Before(e.DueAt) { // which only another program can have published
			e.ReachedAt = e.DueAt
		}
	}
	slices.SortStableFunc(newest, func(a, b timer.DueTimeReached) int {
		return cmp.Or(a.Compare(b.Key), b.ReachedAt.Compare(a.ReachedAt))
	})
	return ids, slices.CompactFunc(newest, func(a, b timer.DueTimeReached) bool { return a.Key == b.Key })
}
