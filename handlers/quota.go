package handlers

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// reserve reserves what the commands of a delivery take of the quota of their
// tenant, or notes the limit that they exceed, which is not an error: the store is
// well.
func (h *Handlers) reserve(ctx context.Context, d *delivery) (r quota.Reservation, err error) {
	if h.opt.Quotas != nil {
		r, d.exceeded, err = h.opt.Quotas.Reserve(ctx, h.opt.Timers, broker.Deliveries(d.msg) > 1, d.schedules...)
	}
	return r, err
}

// limit decides what becomes of a message that exceeds a quota. It goes back to the
// broker by a nack, with the delay after which to deliver it again, and not by an
// error, which would be logged for each of them; or it becomes a dead letter.
func (h *Handlers) limit(next message.HandlerFunc) message.HandlerFunc {
	if h.opt.Quotas == nil {
		return next
	}
	return func(msg *message.Message) ([]*message.Message, error) {
		produced, err := next(msg)
		d := deliveryOf(msg)
		if err != nil || d.exceeded == nil {
			return produced, err
		}
		e := d.exceeded
		if e.First {
			h.log.WarnContext(msg.Context(), "a tenant exceeds its quota", "tenant_id", d.schedules[0].TenantID, "policy", e.Policy, "detail", e.Detail)
		}
		if e.Policy == quota.DeadLetter {
			return nil, timer.Invalid(timer.ReasonOverQuota, "%s", e.Detail)
		}
		d.result.Outcome = OutcomeOverQuota
		broker.RetryAfter(msg, e.Delay)
		msg.Nack()
		return nil, nil
	}
}
