package handlers

import (
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// A delivery travels with the message through the chain.
type delivery struct {
	command any // timer.ScheduleTimer or timer.CancelTimer
	result  Result
}

type deliveryKey struct{}

func deliveryOf(msg *message.Message) *delivery {
	return msg.Context().Value(deliveryKey{}).(*delivery)
}

// decode reads the envelope and checks what only the service can: the tenant
// that the topic names, and the horizon. A message of a type that is not ours
// ends here: teams may share a topic.
func (h *Handlers) decode(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		m, err := envelope.Decode(msg.Payload)
		if err != nil {
			return nil, err
		}
		d := deliveryOf(msg)
		switch command := m.Payload.(type) {
		case timer.ScheduleTimer:
			command.CorrelationID, command.Trace = origin(command.CorrelationID, msg)
			d.command, d.result.Type = command, m.Type
			err = h.checkDueAt(command.DueAt)
		case timer.CancelTimer:
			d.command, d.result.Type = command, m.Type
		default:
			d.result.Outcome = OutcomeIgnored
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if tenant, named := h.routing.TenantOf(msg.Metadata.Get(envelope.MetaTopic)); named && tenant != m.TenantID {
			return nil, timer.Invalid(timer.ReasonTenantMismatch,
				"tenantId %s came on the topic of tenant %s", timer.Quote(string(m.TenantID)), timer.Quote(string(tenant)))
		}
		return next(msg)
	}
}

// origin returns the correlation id and the trace context of a command. They
// are all that crosses over from its headers, and the body wins.
func origin(correlationID string, msg *message.Message) (string, timer.Trace) {
	if len(msg.Metadata) == 0 {
		return correlationID, timer.Trace{}
	}
	if correlationID == "" {
		correlationID = envelope.CorrelationFrom(msg.Metadata.Get)
	}
	return correlationID, envelope.TraceFrom(msg.Metadata.Get)
}

// checkDueAt refuses a timer that is due beyond the horizon.
func (h *Handlers) checkDueAt(due time.Time) error {
	if limit := h.clock.Now().Add(h.opt.Horizon); due.After(limit) {
		return timer.Invalid(timer.ReasonBeyondHorizon,
			"dueAt %s is beyond the horizon of %s", due.Format(time.RFC3339), h.opt.Horizon)
	}
	return nil
}

// apply hands the command to the store. What it returns nil for is durable.
func (h *Handlers) apply(msg *message.Message) error {
	d := deliveryOf(msg)
	var outcome timer.Outcome
	var err error
	switch command := d.command.(type) {
	case timer.ScheduleTimer:
		outcome, err = h.schedule(msg.Context(), command)
	case timer.CancelTimer:
		outcome, err = h.cancel(msg.Context(), command)
	}
	if err != nil {
		return err
	}
	d.result.Outcome = outcome.String()
	return nil
}
