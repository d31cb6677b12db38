package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/internal/retry"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// A Joined schedules and cancels in one transaction. Get it with [Timers.In]. It is for the
// goroutine of the transaction, while the transaction is open.
type Joined struct {
	timers   *Timers
	commands timer.Commands
	list     func(context.Context, timer.Filter) (timer.Page, error) // in the transaction
	putInbox func(context.Context, ...timer.InboxMessage) error      // in the transaction
	open     *pendingEffects                                         // of a transaction of [Tx]; nil outside of one
	joins    bool                                                    // the transaction belongs to the caller, and stays open
	err      error                                                   // why nothing can be done in it; nil otherwise
}

// pendingEffects are the effects of commands in a transaction of [Tx], which are reported after its
// commit.
type pendingEffects struct {
	mu      sync.Mutex
	due     time.Time // the earliest that was set; zero if none was
	decided []handlers.Decision
}

// Schedule schedules timers, as [Timers.ScheduleTx].
func (j Joined) Schedule(ctx context.Context, timers ...client.Timer) error {
	if j.err != nil {
		return j.err
	}
	now := j.timers.app.opt.Clock.Now()
	commands, wrong := make([]timer.ScheduleTimer, len(timers)), make([]error, len(timers))
	for i, t := range timers {
		c, err := j.command(ctx, now, t)
		commands[i], wrong[i] = c, about("schedule", c.Key, err)
	}
	if err := errors.Join(wrong...); err != nil || len(timers) == 0 {
		return err
	}
	if err := j.allow(ctx, commands); err != nil {
		return err
	}
	results, err := j.unlocked(ctx, func(to timer.Commands) ([]timer.Result, error) { return to.Schedule(ctx, now, commands...) })
	j.timers.app.opt.Quotas.Done(commands, results)
	if err != nil {
		for _, c := range commands {
			j.mayApply(c.DueAt)
		}
		return about("schedule", commands[0].Key, j.waited(err))
	}
	var due time.Time
	decided := make([]handlers.Decision, len(results))
	for i, r := range results {
		c := &commands[i]
		if r.Outcome == timer.DidSchedule || r.Outcome == timer.DidReschedule {
			due = sooner(due, c.DueAt)
		}
		decided[i] = decision(envelope.TypeScheduleTimer, c.Key, c.Version, c.CorrelationID, c.DueAt, r)
		wrong[i] = about("schedule", c.Key, without(r))
	}
	j.applied(due, decided)
	return errors.Join(wrong...)
}

// Cancel cancels timers, as [Timers.CancelTx].
func (j Joined) Cancel(ctx context.Context, keys ...timer.Key) error {
	if j.err != nil {
		return j.err
	}
	a := j.timers.app
	now := a.opt.Clock.Now()
	commands, wrong := make([]timer.CancelTimer, len(keys)), make([]error, len(keys))
	for i, key := range keys {
		commands[i] = timer.CancelTimer{Key: key, Version: j.timers.versions.Complete(timer.Version{}, now), Trace: a.opt.Tracing.Context(ctx), Latest: true}
		wrong[i] = about("cancel", key, commands[i].Validate())
	}
	if err := errors.Join(wrong...); err != nil || len(keys) == 0 {
		return err
	}
	results, err := j.apply(ctx, now, timer.SelectionStep{Cancels: commands})
	for i, r := range results {
		wrong[i] = about("cancel", keys[i], without(r))
	}
	return errors.Join(append(wrong, err)...)
}

// maxSelected is the most timers that one transaction of a caller cancels or moves.
const maxSelected = 10_000

// CancelWhere cancels timers, as [Timers.CancelWhereTx].
func (j Joined) CancelWhere(ctx context.Context, tenant timer.TenantID, of timer.Selection) (timer.CancelCounts, error) {
	if j.err != nil {
		return timer.CancelCounts{}, j.err
	}
	n, err := j.where(ctx, "cancel", timer.CancelTimers{TenantID: tenant, Of: of}.Command())
	return n.Canceled(), err
}

// RescheduleWhere moves timers, as [Timers.RescheduleWhereTx].
func (j Joined) RescheduleWhere(ctx context.Context, tenant timer.TenantID, of timer.Selection, move timer.Move) (timer.SelectionCounts, error) {
	if j.err != nil {
		return timer.SelectionCounts{}, j.err
	}
	a := j.timers.app
	now, horizon := a.opt.Clock.Now(), a.opt.Quotas.HorizonOr(tenant, a.opt.Horizon)
	if err := cmp.Or(move.Validate(), timer.ValidateHorizon("to", move.To, now, horizon)); err != nil {
		return timer.SelectionCounts{}, fmt.Errorf("reschedule timers of %s: %w", tenant, err)
	}
	return j.where(ctx, "reschedule", timer.SelectionCommand{
		CancelTimers: timer.CancelTimers{TenantID: tenant, Of: of}, Move: move, NotAfter: now.Add(horizon),
	})
}

// where applies a command to the timers that it selects, and to the commands that wait in the
// inbox. These have no timer yet that could be read and moved by a duration.
func (j Joined) where(ctx context.Context, doing string, c timer.SelectionCommand) (timer.SelectionCounts, error) {
	a := j.timers.app
	now := a.opt.Clock.Now()
	c.Version, c.Trace, c.Latest = j.timers.versions.Complete(timer.Version{}, now), a.opt.Tracing.Context(ctx), true
	if err := c.Validate(); err != nil {
		return timer.SelectionCounts{}, fmt.Errorf("%s timers of %s: %w", doing, c.TenantID, err)
	}
	left := maxSelected
	apply := func() (timer.SelectionCounts, error) {
		return timer.ApplySelected(ctx, c, j.list, func(ctx context.Context, step timer.SelectionStep) ([]timer.Result, error) {
			if left -= step.Len(); j.joins && left < 0 {
				return nil, fmt.Errorf("%s timers of %s: %w", doing, c.TenantID, timer.Invalid(timer.ReasonRefused, "there are more than %d, which is the most for one transaction: call it without one", maxSelected))
			}
			return j.apply(ctx, now, step)
		})
	}
	n, err := apply()
	if err != nil || c.IsLasting() || c.By != 0 || n.Decides(c) || a.broker == (noBroker{}) {
		return n, err
	}
	if err := j.putInbox(ctx, handlers.Applied(c, a.opt.Clock.Now())); err != nil || j.joins {
		return n, err
	}
	late, err := apply() // as the handler of a message does
	late.Changed += n.Changed
	return late, err
}

// apply applies commands, and returns their results.
func (j Joined) apply(ctx context.Context, now time.Time, step timer.SelectionStep) ([]timer.Result, error) {
	kind := envelope.TypeCancelTimer
	if len(step.Moves) > 0 {
		kind = envelope.TypeRescheduleTimers
	}
	results, err := j.unlocked(ctx, func(to timer.Commands) ([]timer.Result, error) { return step.Apply(ctx, now, to) })
	if err != nil {
		for _, c := range step.Moves {
			j.mayApply(c.DueAt)
		}
		key, _, _ := step.At(0)
		return nil, about(step.Doing(), key, j.waited(err))
	}
	decided := make([]handlers.Decision, len(results))
	for i, r := range results {
		key, version, due := step.At(i)
		if r.Outcome == timer.DidCancel {
			j.timers.app.opt.Quotas.Decremented(key.TenantID)
		}
		decided[i] = decision(kind, key, version, "", due, r)
	}
	j.applied(step.Soonest(results), decided)
	return results, nil
}

// lockedTime is how long a call waits for another transaction, if its context allows more.
const lockedTime = 30 * time.Second

// unlocked calls apply again while another transaction holds one of its timers, unless the call is in a
// transaction: there the store waits for the lock.
func (j Joined) unlocked(ctx context.Context, apply func(to timer.Commands) ([]timer.Result, error)) ([]timer.Result, error) {
	results, err := apply(j.commands)
	waiting, cancel := context.WithTimeout(ctx, lockedTime)
	defer cancel()
	for tries := 1; !j.joins && errors.Is(err, timer.ErrLocked); tries++ {
		if !pause.For(waiting, retry.Handler.After(tries)) {
			if ended := ctx.Err(); ended != nil {
				err = fmt.Errorf("%w: %w", ended, err)
			}
			return nil, err
		}
		results, err = apply(j.timers.unbatched)
	}
	return results, err
}

// mayApply announces the due time of a command whose effect is unknown after an error: it may be
// committed, now or soon. In a transaction of the caller it has none.
func (j Joined) mayApply(due time.Time) {
	if !j.joins {
		j.timers.app.poller.Booked(due)
	}
}

// waited adds errWaited to an error, unless the call has a transaction.
func (j Joined) waited(err error) error {
	if j.joins {
		return err
	}
	return waited(err)
}

// waited adds errWaited to the error of a call that waited for too long.
func waited(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, timer.ErrLocked) {
		return fmt.Errorf("%w; %w", err, errWaited)
	}
	return err
}

// applied reports the earliest due time that commands have set, and their outcomes: to the
// poller and the hooks at once, or in a transaction of [Tx] after its commit.
func (j Joined) applied(due time.Time, decided []handlers.Decision) {
	switch {
	case j.open != nil:
		j.open.mu.Lock()
		defer j.open.mu.Unlock()
		j.open.due, j.open.decided = sooner(j.open.due, due), append(j.open.decided, decided...)
		return
	case due.IsZero():
	case j.joins:
		j.timers.app.poller.Booked(due)
	default:
		j.timers.app.poller.Sooner(due)
	}
	j.timers.observe(decided)
}

// sooner returns the earlier of two times, or the one that is not zero.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// command returns the command for a timer, or a [timer.InvalidError].
func (j Joined) command(ctx context.Context, now time.Time, t client.Timer) (timer.ScheduleTimer, error) {
	a := j.timers.app
	latest := t.Version.TimestampMS == 0 // a host without versions of its own never comes too late
	t.Version = j.timers.versions.Complete(t.Version, now)
	c, err := t.Command(now)
	if err != nil {
		return c, err
	}
	c.Latest, c.Trace = latest, a.opt.Tracing.Context(ctx)
	if err := timer.ValidateTimestamp(c.TimestampMS, now, a.opt.MaxClockAhead); err != nil {
		return c, err
	}
	a.opt.Quotas.Expire(&c)
	return c, timer.ValidateHorizon("dueAt", c.DueAt, now, a.opt.Quotas.HorizonOr(c.TenantID, a.opt.Horizon))
}

// decision returns the decision about a command that had a result.
func decision(kind string, key timer.Key, version timer.Version, correlationID string, due time.Time, r timer.Result) handlers.Decision {
	d := handlers.Decision{
		Result: handlers.Result{Type: kind, Outcome: r.Outcome.String()},
		Key:    key, ID: version.CommandID, CorrelationID: correlationID, DueAt: due,
	}
	if r.Err != nil {
		d.Outcome, d.Detail = handlers.OutcomeInvalid, r.Err.Error()
		if invalid, ok := errors.AsType[*timer.InvalidError](r.Err); ok {
			d.Reason, d.Detail = string(invalid.Reason), invalid.Detail
		}
	}
	return d
}

// about adds the operation and the key to an error; nil stays nil.
func about(doing string, key timer.Key, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", doing, key, err)
}

// without returns why a command has no effect, or nil if it has one or was accepted before.
func without(r timer.Result) error {
	switch r.Outcome {
	case timer.WasStale, timer.WasTied:
		return timer.ErrStale
	case timer.WasReached:
		return timer.ErrReached
	case timer.WasExpired:
		return timer.ErrExpired
	}
	return r.Err
}

// countTimeout is how long the count of a tenant's timers may take while a
// transaction of the caller is open, which may have the only connection.
const countTimeout = time.Second

var errUncounted = fmt.Errorf("%w: its timers can't be counted while this transaction is open", timer.ErrOverQuota)

// allow asks the quotas. The error wraps [timer.ErrOverQuota] if the timers exceed a quota of
// their tenant; then nothing is taken of any quota.
func (j Joined) allow(ctx context.Context, commands []timer.ScheduleTimer) error {
	quotas := j.timers.app.opt.Quotas
	if j.joins {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, countTimeout, errUncounted)
		defer cancel()
	}
	of := make(map[timer.TenantID][]timer.ScheduleTimer)
	for _, c := range commands {
		of[c.TenantID] = append(of[c.TenantID], c)
	}
	var allowed []timer.ScheduleTimer
	for _, own := range of {
		exceeded, err := quotas.Allow(ctx, j.timers.app.store.Timers(), quota.Fresh, own...)
		switch {
		case err != nil && errors.Is(context.Cause(ctx), errUncounted):
			err = errUncounted
		case err != nil:
			err = fmt.Errorf("count the timers of its tenant: %w", err)
		case exceeded != nil:
			err = fmt.Errorf("%w: %s", timer.ErrOverQuota, exceeded.Detail)
		}
		if err != nil {
			quotas.Done(allowed, nil)
			return about("schedule", own[0].Key, err)
		}
		allowed = append(allowed, own...)
	}
	return nil
}
