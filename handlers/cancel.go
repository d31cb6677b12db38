package handlers

import (
	"context"
	"fmt"

	"github.com/event-service-agent/timer-service/timer"
)

// cancel applies a CancelTimer.
func (h *Handlers) cancel(ctx context.Context, c timer.CancelTimer) (timer.Outcome, error) {
	outcomes, err := h.store.Cancel(ctx, h.clock.Now(), c)
	if err != nil {
		return 0, fmt.Errorf("cancel %s: %w", c.Key, err)
	}
	return outcomes[0], nil
}
