package app

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// Events are published again in small steps with pauses in between, at most 2,000 a second,
// and none while the outbox is behind, so that timers that fire now are not late.
const (
	refireBatch   = 200
	refirePause   = 100 * time.Millisecond
	refireBacklog = 1000
)

// errRefired ends the walk of [App.Refire] before the end of the timers.
var errRefired = errors.New("all events were published again")

// Refire publishes events again, in the order in which their timers fired or expired, for a
// consumer or a broker that has lost them. An event keeps its id and its times; the message has an id of its own, so that no
// broker drops it, and a consumer that remembers the event does. Handlers of OnDue get it, too.
//
// If ctx ends first, Refire returns its error with the progress, and the next call goes on from
// [timer.Refired.Next]. A timer that was deleted since, by [Options.Retention] or [App.Forget],
// has no event any more. The error wraps [timer.ErrInvalid] if
// [timer.Refire.Validate] says so.
func (a *App) Refire(ctx context.Context, which timer.Refire) (r timer.Refired, err error) {
	now := a.opt.Clock.Now()
	if which, err = which.Validate(now); err != nil {
		return r, err
	}
	r.Until, r.CompleteFrom = timer.RoundUp(which.Until), timer.RoundUp(now.Add(-cmp.Or(a.opt.Retention, store.DefaultKeep)))
	walk := timer.Filter{OverFrom: which.Since, After: which.After, Limit: refireBatch}
	err = timer.EachPage(ctx, &walk, a.store.Timers().List, func(entries []timer.Entry) error {
		var events []timer.DueTimeReached
		end := false
		for _, e := range entries {
			if end = !e.OverAt().Before(which.Until); end {
				break
			}
			if !e.State.Marked() || which.TenantID != "" && e.TenantID != which.TenantID || !strings.HasPrefix(string(e.ServiceCallID), which.Prefix) {
				continue
			}
			again := e.Event()
			again.Again = now
			events = append(events, again)
			if len(r.First) < timer.FirstRefired {
				r.First = append(r.First, e)
			}
		}
		if !which.DryRun && len(events) > 0 {
			if err := a.again(ctx, events, r.Events > 0); err != nil {
				return err
			}
		}
		r.Events += len(events)
		if end {
			walk.After = ""
			return errRefired
		}
		return nil
	})
	r.Next = walk.After
	return r, ignore(err, errRefired)
}

// again appends events to the outbox once more, after a pause if others were just before.
func (a *App) again(ctx context.Context, events []timer.DueTimeReached, behind bool) error {
	if behind && !pause.For(ctx, refirePause) {
		return ctx.Err()
	}
	if err := pause.Until(ctx, func() (bool, error) { return a.forwarder.Waiting() < refireBacklog, nil }); err != nil {
		return err
	}
	if err := a.store.Update(ctx, func(tx timer.Tx) error { return tx.Emit(ctx, events...) }); err != nil {
		return err
	}
	a.forwarder.Appended(len(events))
	return nil
}
