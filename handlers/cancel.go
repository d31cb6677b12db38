package handlers

import (
	"context"
	"fmt"

	"github.com/event-service-agent/timer-service/timer"
)

// cancel applies a CancelTimer.
func (h *Handlers) cancel(ctx context.Context, d *delivery) ([]timer.Result, error) {
	results, err := d.store.Cancel(ctx, h.clock.Now(), d.cancel)
	if err != nil {
		return nil, fmt.Errorf("cancel %s: %w", d.cancel.Key, err)
	}
	if results[0].Outcome == timer.DidCancel && h.opt.Quotas != nil {
		h.opt.Quotas.Decremented(d.cancel.TenantID)
	}
	return results, nil
}
