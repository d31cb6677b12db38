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

// A delivery is a message on its way to its handler, and the context of the handler. That
// context ends DrainTimeout after the stop. The router cancels the contexts of messages in
// flight at once, which would abort healthy transactions.
type delivery struct {
	context.Context                 // of running handlers
	values          context.Context // the message's own
	msg             *message.Message
	store           Store

	invalid   error                 // why it can't be decoded
	schedules []timer.ScheduleTimer // commands of the message
	one       [1]timer.ScheduleTimer
	cancel    timer.CancelTimers    // the command, if schedules is empty; a CancelTimer becomes one with a single service call
	canceled  []timer.ServiceCallID // service calls of the results, if the command was applied

	carried  timer.Trace // by the commands, from the delivery's span
	result   Result
	results  []timer.Result  // of the commands that were applied
	exceeded *quota.Exceeded // the limit that the commands exceed
}

func (h *Handlers) newDelivery(msg *message.Message) *delivery {
	d := &delivery{Context: h.working, values: msg.Context(), msg: msg, store: h.store}
	msg.SetContext(d)
	return d
}

type deliveryKey struct{}

// Value returns the delivery itself, or the value of the message's own context.
func (d *delivery) Value(key any) any {
	if key == (deliveryKey{}) {
		return d
	}
	return d.values.Value(key)
}

func deliveryOf(msg *message.Message) *delivery {
	d, _ := msg.Context().Value(deliveryKey{}).(*delivery)
	return d
}

// begin counts running handlers, and gives a message the context of its delivery.
func (h *Handlers) begin(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		h.atWork.Add(1)
		defer h.end()
		if deliveryOf(msg) == nil {
			h.newDelivery(msg)
		}
		return next(msg)
	}
}

// decodeEarly decodes messages in the goroutine of their subscription. The router has a
// goroutine for each message, and decoding there would make its stack grow, which took a
// tenth of the CPU time of an intake (measured 2026-11).
func (h *Handlers) decodeEarly(sub message.Subscriber) (message.Subscriber, error) {
	return message.MessageTransformSubscriberDecorator(func(msg *message.Message) { h.read(h.newDelivery(msg)) })(sub)
}

// end notifies [atWork] when no handler is running.
func (h *Handlers) end() {
	if h.atWork.Add(-1) > 0 {
		return
	}
	select {
	case h.idle <- struct{}{}:
	default:
	}
}

// span makes the span of a delivery around its whole handling. Middleware of the host may have
// changed the message or replaced its context, and may call next again, so with such middleware
// span decodes the message first.
func (h *Handlers) span(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		d := deliveryOf(msg)
		if len(h.opt.Middleware) > 0 {
			d = h.newDelivery(msg)
			h.read(d)
		}
		if h.opt.Trace == nil {
			return next(msg)
		}
		return h.traced(d, next)
	}
}

// traced makes the span of a delivery around its handling.
func (h *Handlers) traced(d *delivery, next message.HandlerFunc) ([]*message.Message, error) {
	spanned, carried, end := h.opt.Trace(d.values, d.received())
	d.values, d.carried = spanned, carried
	for i := range d.schedules {
		d.schedules[i].Trace = carried
	}
	d.cancel.Trace = carried
	produced, err := next(d.msg)
	end(d.handled(err))
	return produced, err
}

// errBehind is the error of a command that may be valid once the clock is right.
var errBehind = errors.New("the command is far in the future of a clock that is behind")

// refuseInvalid returns the error of an invalid message, which the poison queue around it
// makes a dead letter. It ends the handling of an ignored message, and passes on the others.
func (h *Handlers) refuseInvalid(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		d := deliveryOf(msg)
		if isFuture(d.invalid) && h.opt.ClockBehind != nil && h.opt.ClockBehind(d) {
			return nil, errBehind
		}
		if d.invalid != nil || d.result.Outcome == OutcomeIgnored {
			return nil, d.invalid
		}
		return next(msg)
	}
}

// isFuture reports whether a message may be invalid because it is too far in the future.
func isFuture(why error) bool {
	invalid, ok := errors.AsType[*timer.InvalidError](why)
	return ok && (invalid.Reason == timer.ReasonBadTime || invalid.Reason == timer.ReasonBeyondHorizon)
}

// read decodes the message of a delivery, or records why it can't. If a decoder panics, the
// message is invalid.
func (h *Handlers) read(d *delivery) {
	defer func() {
		if r := recover(); r != nil {
			d.invalid = timer.Invalid(timer.ReasonBadField, "decode: %v", r)
		}
	}()
	d.invalid = h.decodeCommands(d, h.clock.Now())
}

// decodeCommands decodes the envelope and makes the checks that need the service: the tenant
// in the topic's name, the producer's clock, and the horizon.
func (h *Handlers) decodeCommands(d *delivery, now time.Time) error {
	m, err := envelope.DecodeWith(d.msg.Payload, d.msg.Metadata.Get)
	if err != nil {
		return err
	}
	switch command := m.Payload.(type) {
	case timer.ScheduleTimer:
		d.one[0] = command
		d.schedules = d.one[:]
	case timer.ScheduleTimers:
		d.schedules = command.Commands
	case timer.CancelTimer:
		d.cancel = timer.CancelTimers{
			TenantID: command.TenantID, Version: command.Version, Of: timer.Selection{Calls: []timer.ServiceCallID{command.ServiceCallID}},
			CorrelationID: command.CorrelationID, Trace: command.Trace,
		}
	case timer.CancelTimers:
		d.cancel = command
	default:
		if !h.opt.IgnoreOthers {
			return timer.Invalid(timer.ReasonUnknownType, "type %s is not a command; send %s, %s, %s or %s",
				timer.Quote(m.Type), envelope.TypeScheduleTimer, envelope.TypeScheduleTimers, envelope.TypeCancelTimer, envelope.TypeCancelTimers)
		}
		d.result.Outcome = OutcomeIgnored
		if kind := timer.Quote(m.Type); h.others.add(kind) {
			h.log.WarnContext(d, "messages of an unknown type are ignored", "type", kind, "first_tenant_id", m.TenantID, "first_message_id", m.ID)
		}
		return nil
	}
	d.result.Type = m.Type
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

// checkSchedules refuses timers that are due beyond the horizon of their tenant.
func (h *Handlers) checkSchedules(d *delivery, now time.Time) error {
	if len(d.schedules) == 0 {
		d.cancel.Receipt = h.opt.Receipts != nil
		return nil
	}
	horizon := h.opt.Quotas.HorizonOr(d.schedules[0].TenantID, h.opt.Horizon)
	limit := now.Add(horizon)
	for i := range d.schedules {
		c := &d.schedules[i]
		c.Receipt = h.opt.Receipts != nil
		if c.DueAt.After(limit) {
			return timer.Invalid(timer.ReasonBeyondHorizon, "%sdueAt %s is beyond the horizon of %s",
				itemName(d.schedules, i), c.DueAt.Format(time.RFC3339), horizon)
		}
	}
	return nil
}

// Decode returns the commands of a message that a broker has stored at a time, by the rules
// that applied then: the commands of a ScheduleTimer or ScheduleTimers, or a CancelTimer or
// CancelTimers, which has an id then. None asks for a receipt. The message passes the host's
// middleware, as it did then. An error that wraps [timer.ErrInvalid] says why the message is
// invalid. For a message that is not a command and may be ignored, Decode returns neither
// commands nor an error.
func (h *Handlers) Decode(ctx context.Context, msg *message.Message, stored time.Time) (schedules []timer.ScheduleTimer, cancel timer.CancelTimers, err error) {
	msg.SetContext(ctx)
	decode := func(msg *message.Message) ([]*message.Message, error) {
		d := &delivery{Context: ctx, values: ctx, msg: msg}
		if err := h.decodeCommands(d, stored); err != nil {
			return nil, err
		}
		schedules = d.schedules
		for i := range schedules {
			schedules[i].Receipt = false
		}
		cancel = d.cancel
		cancel.Receipt = false
		return nil, nil
	}
	for _, m := range slices.Backward(h.opt.Middleware) {
		decode = m(decode)
	}
	_, err = decode(msg)
	return schedules, cancel, err
}
