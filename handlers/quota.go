package handlers

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// allow records the limit that the commands of a delivery exceed, if they exceed one. That is
// not an error, because the store works.
func (h *Handlers) allow(ctx context.Context, d *delivery) (err error) {
	if h.opt.Quotas != nil {
		d.exceeded, err = h.opt.Quotas.Allow(ctx, h.opt.Timers, broker.Deliveries(d.msg) > 1, d.schedules...)
	}
	return err
}

// allowed passes on the results of commands that were allowed. There are none if they failed.
func (h *Handlers) allowed(d *delivery, results ...timer.Result) {
	if h.opt.Quotas != nil {
		h.opt.Quotas.Done(d.schedules[0].TenantID, len(d.schedules), results...)
	}
}

// limit handles a message that exceeds a quota. It nacks the message with the delay after
// which the broker delivers it again, or makes it a dead letter. It returns no error, which
// would be logged for each message.
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
