package handlers

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/timer"
)

// apply applies the commands of a delivery. It returns nil when their effect is durable, or if
// they exceed a limit.
func (h *Handlers) apply(d *receivedMessage) (err error) {
	var results []timer.Result
	if len(d.schedules) == 0 {
		results, err = h.applySelection(d)
	} else {
		results, err = h.schedule(d)
	}
	if err != nil || d.exceeded != nil {
		return err
	}
	if len(results) > 0 && results[0].Err != nil { // all results have the same error
		return results[0].Err
	}
	d.results = results
	failpoint.Here("handled")
	return nil
}

// schedule applies a ScheduleTimer or a ScheduleTimers, and reports the earliest due times
// that were set.
func (h *Handlers) schedule(d *receivedMessage) ([]timer.Result, error) {
	if err := h.leaveCanceled(d); err != nil || len(d.schedules) == 0 {
		return nil, err
	}
	if err := h.allow(d); err != nil || d.exceeded != nil {
		return nil, err
	}
	var applied []timer.Result // none after an error or a panic: then the limiter gives the tokens back
	defer func() {
		if !d.known {
			h.opt.Quotas.Done(d.schedules, applied)
		}
	}()
	results, err := d.store.Schedule(d.ctx, h.clock.Now(), d.schedules...)
	if err != nil {
		return nil, fmt.Errorf("schedule %s: %w", d.schedules[0].Key, err)
	}
	if results[0].Err != nil {
		return results, nil
	}
	applied = results
	_, _, moves, err := h.selectWaiting(d) // another instance may have canceled or moved them since
	var moved []timer.Result
	if err == nil && len(moves) > 0 {
		moved, err = d.store.Schedule(d.ctx, h.clock.Now(), moves...) // a timer that has changed since is as its newer command says
	}
	if err != nil {
		return nil, fmt.Errorf("apply selections to %s: %w", d.schedules[0].Key, err)
	}
	h.scheduled(d.schedules, results)
	h.scheduled(moves, moved)
	return results, nil
}

// scheduled reports the earliest due time that commands have set.
func (h *Handlers) scheduled(commands []timer.ScheduleTimer, results []timer.Result) {
	var first time.Time
	for i, r := range results {
		// A try before this one may have set it, although its commit was reported as failed.
		set := r.Outcome == timer.DidSchedule || r.Outcome == timer.DidReschedule || r.Outcome == timer.WasSame
		if due := commands[i].DueAt; set && (first.IsZero() || due.Before(first)) {
			first = due
		}
	}
	if !first.IsZero() {
		h.opt.Scheduled(first)
	}
}

// itemName names an item of a message that has several timers.
func itemName(commands []timer.ScheduleTimer, i int) string {
	if len(commands) == 1 {
		return ""
	}
	return fmt.Sprintf("timers[%d].", i)
}

// applySelection applies a CancelTimer, a CancelTimers or a RescheduleTimers.
func (h *Handlers) applySelection(d *receivedMessage) ([]timer.Result, error) {
	d.calls = nil
	if d.selection.IsLasting() {
		results, _, err := h.applySelected(d)
		return results, err
	}
	return h.applyOnce(d)
}

// applySelected cancels or moves timers that a delivery selects. A retry selects all timers once
// more, and does not change a timer that it has changed.
func (h *Handlers) applySelected(d *receivedMessage) ([]timer.Result, timer.SelectionCounts, error) {
	all := []timer.Result{}
	n, err := timer.ApplySelected(d.ctx, d.selection, h.list, func(ctx context.Context, step timer.SelectionStep) ([]timer.Result, error) {
		results, err := step.Apply(ctx, h.clock.Now(), d.store)
		if err != nil {
			key, _, _ := step.At(0)
			return nil, fmt.Errorf("%s %s: %w", step.Doing(), key, err)
		}
		for i, r := range results {
			if key, _, _ := step.At(i); r.Outcome != timer.WasChanged { // otherwise it is read again
				d.calls, all = append(d.calls, key.ServiceCallID), append(all, r)
			}
			if r.Outcome == timer.DidCancel {
				h.decremented(d.selection.TenantID)
			}
		}
		if due := step.Soonest(results); !due.IsZero() {
			h.opt.Scheduled(due)
		}
		return results, nil
	})
	if err == nil && d.selection.IsMove() && n.Decided > 0 {
		h.opt.Scheduled(d.selection.To) // a try before this one may have moved them, see schedule
	}
	return all, n, err
}

func (h *Handlers) list(ctx context.Context, f timer.Filter) (timer.Page, error) {
	return h.opt.Timers.List(ctx, f)
}

// A Decision is the outcome of one command of a delivery, for [Options.Watch].
type Decision struct {
	Result
	timer.Key               // of the command; if that is invalid, the part of the key that can be read
	ID            string    // of the message
	CorrelationID string    // of the command; may be empty
	DueAt         time.Time // of a ScheduleTimer, or of a RescheduleTimers
	Reason        string    // why the command is invalid
	Detail        string    // the same in more words, for people
}

// decisions calls watch with the outcome of each command of a delivery.
func (d *receivedMessage) decisions(watch func(Decision)) {
	why := d.why()
	decided := func(i int, call timer.ServiceCallID, due time.Time) {
		result := d.result
		if i < len(d.results) {
			result.Outcome = d.results[i].Outcome.String()
		}
		watch(Decision{
			Result: result, Key: timer.Key{TenantID: cmp.Or(d.origin.TenantID, timer.NoTenant), ServiceCallID: call}, ID: d.origin.ID,
			CorrelationID: d.origin.CorrelationID, DueAt: due, Reason: string(why.Reason), Detail: why.Detail,
		})
	}
	for i, c := range d.schedules {
		decided(i, c.ServiceCallID, c.DueAt)
	}
	calls := d.calls
	if d.results == nil {
		calls = d.selection.Of.Calls
	}
	for i, call := range calls {
		decided(i, call, d.selection.To)
	}
	if d.results == nil && d.commands() == 0 { // the timers of the message are not known
		decided(0, d.origin.ServiceCallID, d.selection.To)
	}
}
