package handlers

import (
	"context"
	"fmt"

	"github.com/event-service-agent/timer-service/timer"
)

// schedule applies a ScheduleTimer and tells when it is due.
func (h *Handlers) schedule(ctx context.Context, c timer.ScheduleTimer) (timer.Outcome, error) {
	outcomes, err := h.store.Schedule(ctx, h.clock.Now(), c)
	if err != nil {
		return 0, fmt.Errorf("schedule %s: %w", c.Key, err)
	}
	if outcomes[0] == timer.DidSchedule || outcomes[0] == timer.DidReschedule {
		h.opt.Scheduled(c.DueAt)
	}
	return outcomes[0], nil
}
