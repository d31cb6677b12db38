package handlers

import (
	"context"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// horizon returns how far ahead a timer of the tenant may be due.
func (h *Handlers) horizon(tenant timer.TenantID) time.Duration {
	if h.opt.Quotas != nil {
		if d := h.opt.Quotas.Horizon(tenant); d > 0 {
			return d
		}
	}
	return h.opt.Horizon
}

// scheduleWithin applies the command of a delivery, or notes the quota that it is
// over, which is no error: the store is well.
func (h *Handlers) scheduleWithin(ctx context.Context, d *delivery) (outcomes []timer.Outcome, err error) {
	if h.opt.Quotas == nil {
		return h.schedule(ctx, *d.schedule)
	}
	grant, over, err := h.opt.Quotas.Admit(ctx, h.opt.Timers, d.schedule.Key)
	if err != nil || over != nil {
		d.over = over
		return nil, err
	}
	defer func() {
		if len(outcomes) == 0 { // an error, or a panic
			grant.Failed()
		}
	}()
	if outcomes, err = h.schedule(ctx, *d.schedule); err == nil {
		h.accepted(d, grant, outcomes[0])
	}
	return outcomes, err
}

// accepted tells the quotas what a ScheduleTimer did.
func (h *Handlers) accepted(d *delivery, grant quota.Grant, did timer.Outcome) {
	if h.opt.Quotas == nil || d.schedule == nil {
		return
	}
	grant.Done(did)
	h.opt.Quotas.Arrived(d.schedule.TenantID, d.Deliveries())
}

// keepQuota decides what becomes of a command that is over a quota. It goes back
// to the broker by a nack and not by an error, which would be logged for each of
// them; or it becomes a dead letter, also if too many wait at the broker already.
func (h *Handlers) keepQuota(next message.HandlerFunc) message.HandlerFunc {
	if h.opt.Quotas == nil {
		return next
	}
	return func(msg *message.Message) ([]*message.Message, error) {
		produced, err := next(msg)
		d := deliveryOf(msg)
		if err != nil || d.over == nil {
			return produced, err
		}
		tenant, deliveries := d.schedule.TenantID, d.Deliveries()
		if d.over.First {
			h.log.WarnContext(msg.Context(), "a tenant is over its quota", "tenant_id", tenant, "policy", d.over.Policy, "detail", d.over.Detail)
		}
		detail := d.over.Detail
		if d.over.Policy == quota.Delay {
			if h.opt.Quotas.Delay(tenant, deliveries) {
				d.result.Outcome = OutcomeOverQuota
				msg.Nack()
				return nil, nil
			}
			detail += "; and as many of its commands wait as may"
		}
		h.opt.Quotas.Arrived(tenant, deliveries)
		return nil, timer.Invalid(timer.ReasonOverQuota, "%s", detail)
	}
}
