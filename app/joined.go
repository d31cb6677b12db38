package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/timer"
)

// A Joined schedules and cancels in one transaction. Get it with [Timers.In]. It is for the
// goroutine of the transaction, while the transaction is open.
type Joined struct {
	timers   *Timers
	commands timer.Commands
	booked   func(booked) // called with what was applied
	joins    bool         // the host's transaction is open meanwhile
}

// Schedule schedules timers, as [Timers.ScheduleTx].
func (j Joined) Schedule(ctx context.Context, timers ...client.Timer) error {
	if len(timers) == 0 {
		return nil
	}
	a := j.timers.app
	now := a.opt.Clock.Now()
	commands := make([]timer.ScheduleTimer, len(timers))
	var wrong []error
	for i, t := range timers {
		var err error
		latest := t.Version.TimestampMS == 0 // a host without versions of its own never comes too late
		t.Version = j.timers.versions.Complete(t.Version, now)
		commands[i], err = a.command(ctx, now, t)
		if commands[i].Latest = latest; err != nil {
			wrong = append(wrong, fmt.Errorf("schedule %s: %w", commands[i].Key, err))
		}
	}
	if len(wrong) > 0 {
		return errors.Join(wrong...)
	}
	allowed, err := j.allow(ctx, commands)
	if err != nil {
		return err
	}
	results, err := j.commands.Schedule(ctx, now, commands...)
	if err != nil {
		j.done(allowed, nil)
		return fmt.Errorf("schedule %s: %w", commands[0].Key, err)
	}
	j.done(allowed, results)
	var b booked
	for i, r := range results {
		c := &commands[i]
		if r.Outcome == timer.DidSchedule || r.Outcome == timer.DidReschedule {
			b.sooner(c.DueAt)
		}
		b.decided = append(b.decided, decision(envelope.TypeScheduleTimer, c.Key, c.Version, c.CorrelationID, c.DueAt, r))
		if err := without(r); err != nil {
			wrong = append(wrong, fmt.Errorf("schedule %s: %w", c.Key, err))
		}
	}
	j.booked(b)
	return errors.Join(wrong...)
}

// Cancel cancels timers, as [Timers.CancelTx].
func (j Joined) Cancel(ctx context.Context, keys ...timer.Key) error {
	if len(keys) == 0 {
		return nil
	}
	a := j.timers.app
	now := a.opt.Clock.Now()
	commands := make([]timer.CancelTimer, len(keys))
	var wrong []error
	for i, key := range keys {
		commands[i] = timer.CancelTimer{Key: key, Version: j.timers.versions.Complete(timer.Version{}, now), Trace: a.opt.Tracing.Context(ctx), Latest: true}
		if err := commands[i].Validate(); err != nil {
			wrong = append(wrong, fmt.Errorf("cancel %s: %w", key, err))
		}
	}
	if len(wrong) > 0 {
		return errors.Join(wrong...)
	}
	results, err := j.cancel(ctx, now, commands...)
	if err != nil {
		return err
	}
	for i, r := range results {
		if err := without(r); err != nil {
			wrong = append(wrong, fmt.Errorf("cancel %s: %w", keys[i], err))
		}
	}
	return errors.Join(wrong...)
}

// maxCanceled is how many timers one transaction of a host cancels at most.
const maxCanceled = 10_000

// CancelWhere cancels timers, as [Timers.CancelWhereTx].
func (j Joined) CancelWhere(ctx context.Context, tenant timer.TenantID, of timer.Selection) (timer.CancelCounts, error) {
	a := j.timers.app
	now := a.opt.Clock.Now()
	c := timer.CancelTimers{TenantID: tenant, Version: j.timers.versions.Complete(timer.Version{}, now), Of: of, Trace: a.opt.Tracing.Context(ctx), Latest: true}
	if err := c.Validate(); err != nil {
		return timer.CancelCounts{}, fmt.Errorf("cancel timers of %s: %w", tenant, err)
	}
	left := maxCanceled
	return timer.CancelSelected(ctx, c, j.timers.List, func(ctx context.Context, commands ...timer.CancelTimer) ([]timer.Result, error) {
		if left -= len(commands); j.joins && left < 0 {
			return nil, fmt.Errorf("cancel timers of %s: %w", tenant, timer.Invalid(timer.ReasonRefused, "there are more than %d, which one transaction cancels: call CancelWhere", maxCanceled))
		}
		return j.cancel(ctx, now, commands...)
	})
}

// cancel applies commands, and says what became of them.
func (j Joined) cancel(ctx context.Context, now time.Time, commands ...timer.CancelTimer) ([]timer.Result, error) {
	a := j.timers.app
	results, err := j.commands.Cancel(ctx, now, commands...)
	if err != nil {
		return nil, fmt.Errorf("cancel %s: %w", commands[0].Key, err)
	}
	var b booked
	for i, r := range results {
		c := &commands[i]
		if r.Outcome == timer.DidCancel && a.opt.Quotas != nil {
			a.opt.Quotas.Decremented(c.TenantID)
		}
		b.decided = append(b.decided, decision(envelope.TypeCancelTimer, c.Key, c.Version, "", time.Time{}, r))
	}
	j.booked(b)
	return results, nil
}

// command returns the command for a timer, or a [timer.InvalidError].
func (a *App) command(ctx context.Context, now time.Time, t client.Timer) (timer.ScheduleTimer, error) {
	c, err := t.Command(now)
	if err != nil {
		return c, err
	}
	c.Trace = a.opt.Tracing.Context(ctx)
	if err := timer.ValidateTimestamp(c.TimestampMS, now, a.opt.MaxClockAhead); err != nil {
		return c, err
	}
	horizon := a.opt.Quotas.HorizonOr(c.TenantID, a.opt.Horizon)
	if c.DueAt.After(now.Add(horizon)) {
		return c, timer.Invalid(timer.ReasonBeyondHorizon, "dueAt %s is beyond the horizon of %s", c.DueAt.Format(time.RFC3339), horizon)
	}
	return c, nil
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

// without returns why a command has no effect, or nil if it has one or was accepted before.
func without(r timer.Result) error {
	switch {
	case r.Err != nil:
		return r.Err
	case r.Outcome == timer.WasStale, r.Outcome == timer.WasTied:
		return timer.ErrStale
	case r.Outcome == timer.WasReached:
		return timer.ErrReached
	case r.Outcome == timer.WasExpired:
		return timer.ErrExpired
	}
	return nil
}

// countTimeout is how long the count of a tenant's timers may take while a
// transaction of the host's is open, which may have the only connection.
const countTimeout = time.Second

// allowed are the indexes of commands that the quotas of their tenants allow.
type allowed map[timer.TenantID][]int

// allow asks the quotas. The error wraps [timer.ErrOverQuota] if a tenant may not have
// so many timers; then nothing is taken of any quota.
func (j Joined) allow(ctx context.Context, commands []timer.ScheduleTimer) (allowed, error) {
	quotas := j.timers.app.opt.Quotas
	if quotas == nil {
		return nil, nil
	}
	counting, cancel := ctx, func() {}
	if j.joins {
		counting, cancel = context.WithTimeout(ctx, countTimeout)
	}
	defer cancel()
	of := make(map[timer.TenantID][]timer.ScheduleTimer)
	all := make(allowed)
	for i, c := range commands {
		of[c.TenantID] = append(of[c.TenantID], c)
		all[c.TenantID] = append(all[c.TenantID], i)
	}
	asked := make(allowed)
	for tenant, own := range of {
		exceeded, err := quotas.Allow(counting, j.timers.app.store.Timers(), false, own...)
		switch {
		case err != nil && j.joins && errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			err = fmt.Errorf("schedule %s: %w: its timers can't be counted while this transaction is open", own[0].Key, timer.ErrOverQuota)
		case err != nil:
			err = fmt.Errorf("schedule %s: count the timers of its tenant: %w", own[0].Key, err)
		case exceeded != nil:
			err = fmt.Errorf("schedule %s: %w: %s", own[0].Key, timer.ErrOverQuota, exceeded.Detail)
		}
		if err != nil {
			j.done(asked, nil)
			return nil, err
		}
		asked[tenant] = all[tenant]
	}
	return all, nil
}

// done says what became of the commands: no results, if they failed.
func (j Joined) done(of allowed, results []timer.Result) {
	for tenant, commands := range of {
		var own []timer.Result
		if results != nil {
			for _, i := range commands {
				own = append(own, results[i])
			}
		}
		j.timers.app.opt.Quotas.Done(tenant, len(commands), own...)
	}
}
