package handlers

import (
	"context"
	"fmt"

	"github.com/event-service-agent/timer-service/timer"
)

// cancel applies a CancelTimer or a CancelTimers. A retry selects all timers once more, and
// does not change a timer that it has canceled.
func (h *Handlers) cancel(ctx context.Context, d *delivery) ([]timer.Result, error) {
	d.canceled = nil
	all := []timer.Result{}
	_, err := timer.CancelSelected(ctx, d.cancel, h.list, func(ctx context.Context, commands ...timer.CancelTimer) ([]timer.Result, error) {
		results, err := d.store.Cancel(ctx, h.clock.Now(), commands...)
		if err != nil {
			return nil, fmt.Errorf("cancel %s: %w", commands[0].Key, err)
		}
		for i, r := range results {
			if r.Outcome == timer.DidCancel && h.opt.Quotas != nil {
				h.opt.Quotas.Decremented(d.cancel.TenantID)
			}
			d.canceled, all = append(d.canceled, commands[i].ServiceCallID), append(all, r)
		}
		return results, nil
	})
	return all, err
}

func (h *Handlers) list(ctx context.Context, f timer.Filter) (timer.Page, error) {
	return h.opt.Timers.List(ctx, f)
}
