package handlers

import (
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// An incoming is a message in whatever shape it came: an [envelope.Offer] is one.
type incoming interface {
	Topic() string
	Header(name string) string
	Body() []byte
	Deliveries() int
}

// A delivery is a message and what it says.
type delivery struct {
	incoming
	schedule *timer.ScheduleTimer // one of the two, once it was read
	cancel   *timer.CancelTimer
	over     *quota.Over // the quota that it is over
	result   Result
}

type deliveryKey struct{}

func deliveryOf(msg *message.Message) *delivery {
	return msg.Context().Value(deliveryKey{}).(*delivery)
}

// decode reads the message. One that is not for us ends here: teams may share a
// topic.
func (h *Handlers) decode(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		d := deliveryOf(msg)
		if err := h.read(d); err != nil || d.result.Outcome == OutcomeIgnored {
			return nil, err
		}
		return next(msg)
	}
}

// read reads the envelope and checks what only the service can: the tenant that
// the topic names, and the horizon.
func (h *Handlers) read(d *delivery) error {
	m, err := envelope.Decode(d.Body())
	if err != nil {
		return err
	}
	switch command := m.Payload.(type) {
	case timer.ScheduleTimer:
		command.CorrelationID, command.Trace = origin(command.CorrelationID, command.Trace, d)
		d.schedule, d.result.Type = &command, m.Type
		if err := h.checkDueAt(command.TenantID, command.DueAt); err != nil {
			return err
		}
	case timer.CancelTimer:
		d.cancel, d.result.Type = &command, m.Type
	default:
		d.result.Outcome = OutcomeIgnored
		return nil
	}
	if tenant, named := h.routing.TenantOf(d.Topic()); named && tenant != m.TenantID {
		return timer.Invalid(timer.ReasonTenantMismatch,
			"tenantId %s came on the topic of tenant %s", timer.Quote(string(m.TenantID)), timer.Quote(string(tenant)))
	}
	return nil
}

// origin returns the correlation id and the trace context of a command. They
// are all that crosses over from its headers, and the body wins.
func origin(correlationID string, trace timer.Trace, in incoming) (string, timer.Trace) {
	if correlationID == "" {
		correlationID = envelope.CorrelationFrom(in.Header)
	}
	if trace.Parent == "" {
		trace = envelope.TraceFrom(in.Header)
	}
	return correlationID, trace
}

// checkDueAt refuses a timer that is due beyond the horizon of its tenant.
func (h *Handlers) checkDueAt(tenant timer.TenantID, due time.Time) error {
	horizon := h.horizon(tenant)
	if limit := h.clock.Now().Add(horizon); due.After(limit) {
		return timer.Invalid(timer.ReasonBeyondHorizon,
			"dueAt %s is beyond the horizon of %s", due.Format(time.RFC3339), horizon)
	}
	return nil
}

// apply hands the command to the store, unless it is over a quota. What it
// returns nil for is durable, or over.
func (h *Handlers) apply(msg *message.Message) error {
	d := deliveryOf(msg)
	var outcomes []timer.Outcome
	var err error
	if d.cancel != nil {
		if outcomes, err = h.cancel(msg.Context(), *d.cancel); err != nil {
			return fmt.Errorf("cancel %s: %w", d.cancel.Key, err)
		}
	} else if outcomes, err = h.scheduleWithin(msg.Context(), d); err != nil {
		return fmt.Errorf("schedule %s: %w", d.schedule.Key, err)
	}
	if d.over == nil {
		d.result.Outcome = outcomes[0].String()
		failpoint.Here("handled")
	}
	return nil
}
