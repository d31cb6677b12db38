package handlers

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// A receivedMessage is a message that is being handled.
type receivedMessage struct {
	ctx   context.Context // of its handling
	msg   *message.Message
	store Store
	row   *row // of the inbox; nil if the message came from the broker

	origin    envelope.Origin        // ids of the message, as far as they can be read
	invalid   error                  // why the message becomes a dead letter; nil if it does not
	schedules []timer.ScheduleTimer  // commands of the message
	selection timer.SelectionCommand // the command, if schedules is empty; a CancelTimer becomes one with a single service call
	calls     []timer.ServiceCallID  // service calls of the results, if the selection was applied
	noted     bool                   // this delivery has noted that the selection was applied

	carried  timer.Trace // by the commands, from the delivery's span
	result   Result
	results  []timer.Result  // of the commands that were applied
	exceeded *quota.Exceeded // the limit that the commands exceed
	known    bool            // they would exceed it, and the store has them already
}

type messageKey struct{}

// receivedOf returns the receivedMessage of a message that [Handlers.receive] has passed on.
func receivedOf(msg *message.Message) *receivedMessage {
	d, _ := msg.Context().Value(messageKey{}).(*receivedMessage)
	return d
}

// commands returns how many timers the message names.
func (d *receivedMessage) commands() int { return len(d.schedules) + len(d.selection.Of.Calls) }

// onlyCall returns the service call of a message about one timer.
func (d *receivedMessage) onlyCall() timer.ServiceCallID {
	switch {
	case d.commands() != 1:
		return ""
	case len(d.schedules) == 1:
		return d.schedules[0].ServiceCallID
	}
	return d.selection.Of.Calls[0]
}

// why returns the reason why the message becomes a dead letter, or the zero value.
func (d *receivedMessage) why() (reason timer.InvalidError) {
	if invalid, ok := errors.AsType[*timer.InvalidError](d.invalid); ok {
		reason = *invalid
	}
	return reason
}

// isEarly reports whether the message may be invalid only because the clock is behind.
func (h *Handlers) isEarly(d *receivedMessage) bool {
	reason := d.why().Reason
	return (reason == timer.ReasonBadTime || reason == timer.ReasonBeyondHorizon) && h.opt.ClockBehind != nil && h.opt.ClockBehind(d.ctx)
}

// read decodes the message of a delivery, or records why it can't. If a decoder panics, the
// message is invalid.
func (h *Handlers) read(d *receivedMessage) {
	defer func() {
		if r := recover(); r != nil {
			d.invalid = timer.Invalid(timer.ReasonBadField, "decode: %v", r)
		}
	}()
	if d.invalid = h.decodeCommands(d, h.clock.Now()); d.invalid != nil {
		d.origin = envelope.OriginOf(d.msg.Payload)
	}
}

// decodeCommands decodes the envelope and makes the checks that need the service: the tenant
// in the topic's name, the producer's clock, and the horizon.
func (h *Handlers) decodeCommands(d *receivedMessage, now time.Time) error {
	m, err := envelope.DecodeWith(d.msg.Payload, d.msg.Metadata.Get)
	if err != nil {
		return err
	}
	switch command := m.Payload.(type) {
	case timer.ScheduleTimer:
		d.schedules = []timer.ScheduleTimer{command}
	case timer.ScheduleTimers:
		d.schedules = command.Commands
	case timer.CancelTimer, timer.CancelTimers, timer.RescheduleTimers:
		d.selection, _ = timer.SelectionOf(command)
	default:
		if !h.opt.IgnoreOthers {
			return timer.Invalid(timer.ReasonUnknownType, "type %s is not a command; send %s, %s, %s, %s or %s",
				timer.Quote(m.Type), envelope.TypeScheduleTimer, envelope.TypeScheduleTimers, envelope.TypeRescheduleTimers, envelope.TypeCancelTimer, envelope.TypeCancelTimers)
		}
		d.result.Outcome = OutcomeIgnored
		if kind := timer.Quote(m.Type); h.others.Add(kind) {
			h.log.WarnContext(d.ctx, "messages of an unknown type are ignored", "type", kind, "first_tenant_id", m.TenantID, "first_message_id", m.ID)
		}
		return nil
	}
	d.result.Type = m.Type
	d.origin = envelope.Origin{ID: m.ID, TenantID: m.TenantID, CorrelationID: m.CorrelationID, ServiceCallID: d.onlyCall()}
	if tenant, named := h.routing.TenantOf(d.msg.Metadata.Get(broker.MetaTopic)); named && tenant != m.TenantID {
		return timer.Invalid(timer.ReasonTenantMismatch,
			"tenantId %s came on the topic of tenant %s", timer.Quote(string(m.TenantID)), timer.Quote(string(tenant)))
	}
	if err := h.checkTimestamp(&m, now); err != nil {
		return err
	}
	return h.checkSchedules(d, now)
}

// clockAhead is how far a producer's clock may be ahead without being logged.
const clockAhead = time.Minute

// checkTimestamp refuses a command whose timestampMs is out of range. It logs tenants whose
// clocks are ahead, because until then their commands supersede the commands of others.
func (h *Handlers) checkTimestamp(m *envelope.Message, now time.Time) error {
	if err := timer.ValidateTimestamp(m.TimestampMS, now, h.opt.MaxAhead); err != nil {
		return err
	}
	if ahead := time.UnixMilli(m.TimestampMS).Sub(now); ahead > clockAhead {
		h.ahead.Note(1, []any{"tenant_id", m.TenantID}, "ahead", ahead.Round(time.Second), "first_message_id", m.ID, "first_correlation_id", m.CorrelationID)
	}
	return nil
}

// checkSchedules refuses timers that are due beyond the horizon of their tenant, and has others
// expire as the quotas of the tenant say.
func (h *Handlers) checkSchedules(d *receivedMessage, now time.Time) error {
	horizon := h.opt.Quotas.HorizonOr(d.origin.TenantID, h.opt.Horizon)
	for i := range d.schedules {
		c := &d.schedules[i]
		c.Receipt = h.opt.Receipts != nil
		h.opt.Quotas.Expire(c)
		if err := timer.ValidateHorizon(itemName(d.schedules, i)+"dueAt", c.DueAt, now, horizon); err != nil {
			return err
		}
	}
	d.selection.Receipt = h.opt.Receipts != nil
	return timer.ValidateHorizon("dueAt", d.selection.To, now, horizon)
}

// Validate returns why the handlers would make a message a dead letter if it came now, or nil:
// for publishers. The middleware of the host program does not see the message.
func (h *Handlers) Validate(msg *message.Message) error {
	d := &receivedMessage{ctx: msg.Context(), msg: msg}
	if h.read(d); h.isEarly(d) {
		return nil
	}
	return d.invalid
}

// Decode returns the commands of a message that a broker has stored at a time, by the rules
// that applied then: the commands of a ScheduleTimer or ScheduleTimers, or a CancelTimer,
// CancelTimers or RescheduleTimers, which has an id then. The message passes the
// middleware of the host program, as it did then. An error that wraps [timer.ErrInvalid] says why the message is
// invalid, and any other one that the middleware failed or panicked. For a message that is not a command and may be ignored, Decode returns neither
// commands nor an error.
func (h *Handlers) Decode(ctx context.Context, msg *message.Message, stored time.Time) (schedules []timer.ScheduleTimer, selection timer.SelectionCommand, err error) {
	msg.SetContext(ctx)
	decode := func(msg *message.Message) ([]*message.Message, error) {
		d := &receivedMessage{ctx: ctx, msg: msg}
		if err := h.decodeCommands(d, stored); err != nil {
			return nil, err
		}
		schedules, selection = d.schedules, d.selection
		return nil, nil
	}
	for _, m := range slices.Backward(h.opt.Middleware) {
		decode = m(decode)
	}
	_, err = h.recoverer(decode)(msg)
	return schedules, selection, err
}
