package handlers

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/timer"
)

// apply handles a message. It returns nil when the effect is durable, or if the message
// exceeds a limit.
func (h *Handlers) apply(msg *message.Message) (err error) {
	d := deliveryOf(msg)
	var results []timer.Result
	if len(d.schedules) == 0 {
		results, err = h.cancel(msg.Context(), d)
	} else {
		results, err = h.schedule(msg.Context(), d)
	}
	if err != nil || d.exceeded != nil {
		return err
	}
	if len(results) > 0 && results[0].Err != nil { // all results have the same error
		return results[0].Err
	}
	d.results = results
	failpoint.Here("handled")
	if h.log.Enabled(d, slog.LevelDebug) {
		h.logResults(d)
	}
	return nil
}

// logResults logs what each command of a delivery did.
func (h *Handlers) logResults(d *delivery) {
	line := func(key timer.Key, version timer.Version, correlationID string, trace timer.Trace, outcome timer.Outcome) {
		h.log.DebugContext(timer.WithTrace(d, trace), "command handled", "type", d.result.Type, "outcome", outcome.String(), "tenant_id", key.TenantID,
			"service_call_id", key.ServiceCallID, "correlation_id", correlationID, "message_id", version.CommandID)
	}
	for i, call := range d.canceled {
		line(timer.Key{TenantID: d.cancel.TenantID, ServiceCallID: call}, d.cancel.Version, d.cancel.CorrelationID, d.cancel.Trace, d.results[i].Outcome)
	}
	for i, c := range d.schedules {
		line(c.Key, c.Version, c.CorrelationID, c.Trace, d.results[i].Outcome)
	}
}

// schedule applies a ScheduleTimer or a ScheduleTimers, and reports the earliest due time
// that was set.
func (h *Handlers) schedule(ctx context.Context, d *delivery) ([]timer.Result, error) {
	if err := h.allow(ctx, d); err != nil || d.exceeded != nil {
		return nil, err
	}
	applied := false
	defer func() {
		if !applied { // because of an error or a panic
			h.allowed(d)
		}
	}()
	results, err := d.store.Schedule(ctx, h.clock.Now(), d.schedules...)
	if err != nil {
		return nil, fmt.Errorf("schedule %s: %w", d.schedules[0].Key, err)
	}
	if results[0].Err != nil {
		return results, nil
	}
	applied = true
	h.allowed(d, results...)
	var first time.Time
	for i, r := range results {
		set := r.Outcome == timer.DidSchedule || r.Outcome == timer.DidReschedule
		if due := d.schedules[i].DueAt; set && (first.IsZero() || due.Before(first)) {
			first = due
		}
	}
	if !first.IsZero() {
		h.opt.Scheduled(first)
	}
	return results, nil
}

// itemName names an item of a message that has several timers.
func itemName(commands []timer.ScheduleTimer, i int) string {
	if len(commands) == 1 {
		return ""
	}
	return fmt.Sprintf("timers[%d].", i)
}
