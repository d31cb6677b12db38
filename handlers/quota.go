package handlers

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// allow notes the limit that the commands of a delivery exceed, if they exceed one. That
// is not an error: the store is well.
func (h *Handlers) allow(ctx context.Context, d *delivery) (err error) {
	if h.opt.Quotas != nil {
		d.exceeded, err = h.opt.Quotas.Allow(ctx, h.opt.Timers, broker.Deliveries(d.msg) > 1, d.schedules...)
	}
	return err
}

// allowed says what became of commands that were allowed: no results, if they failed.
func (h *Handlers) allowed(d *delivery, results ...timer.Result) {
	if h.opt.Quotas != nil {
		h.opt.Quotas.Done(d.schedules[0].TenantID, len(d.schedules), results...)
	}
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
