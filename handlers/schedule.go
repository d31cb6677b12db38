package handlers

import (
	"context"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// schedule applies commands in one transaction, and tells the earliest due time
// that was set.
func (h *Handlers) schedule(ctx context.Context, commands ...timer.ScheduleTimer) ([]timer.Outcome, error) {
	outcomes, err := h.store.Schedule(ctx, h.clock.Now(), commands...)
	if err != nil {
		return nil, err
	}
	var first time.Time
	for i, outcome := range outcomes {
		set := outcome == timer.DidSchedule || outcome == timer.DidReschedule
		if due := commands[i].DueAt; set && (first.IsZero() || due.Before(first)) {
			first = due
		}
	}
	if !first.IsZero() {
		h.opt.Scheduled(first)
	}
	return outcomes, nil
}

// cancel applies commands in one transaction.
func (h *Handlers) cancel(ctx context.Context, commands ...timer.CancelTimer) ([]timer.Outcome, error) {
	outcomes, err := h.store.Cancel(ctx, h.clock.Now(), commands...)
	if h.opt.Quotas != nil {
		for i, outcome := range outcomes {
			if outcome == timer.DidCancel {
				h.opt.Quotas.Fewer(commands[i].TenantID)
			}
		}
	}
	return outcomes, err
}
