package handlers

import (
	"context"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// A Received is a delivery that is about to be handled. If it can't be decoded, it has only
// Topic, Bytes and Trace.
type Received struct {
	Topic         string
	Bytes         int       // of the body
	Type          string    // empty if it is not one of ours
	Key           timer.Key // of the command; without a service call if it has several
	ID            string    // of the command
	CorrelationID string
	Commands      int         // in the message
	Trace         timer.Trace // that the message carries
}

// A Trace is called when a delivery is about to be handled, by many goroutines at once. It
// returns the context of handling it, the trace that the commands carry on, and a function to
// call at the end. It must not block.
type Trace func(ctx context.Context, r Received) (spanned context.Context, carried timer.Trace, end func(Handled))

// A Handled is the outcome of a delivery, for its span.
type Handled struct {
	Outcome string       // as in a [Result]; "several" if timers of a ScheduleTimers differ
	Reason  timer.Reason // why it is invalid; empty if it is valid
	Err     error        // why it will be delivered again; nil if it will not
}

// trace makes the span of a delivery, and returns a function to call at the end.
func (h *Handlers) trace(d *receivedMessage) (end func(Handled)) {
	d.ctx, d.carried, end = h.opt.Trace(d.ctx, d.received())
	for i := range d.schedules {
		d.schedules[i].Trace = d.carried
	}
	d.selection.Trace = d.carried
	return end
}

// trace returns the trace that all commands of the message carry.
func (d *receivedMessage) trace() timer.Trace {
	if len(d.schedules) > 0 {
		return d.schedules[0].Trace
	}
	return d.selection.Trace
}

func (d *receivedMessage) received() Received {
	r := Received{Topic: d.msg.Metadata.Get(broker.MetaTopic), Bytes: len(d.msg.Payload), Type: d.result.Type, Trace: d.trace()}
	if d.invalid != nil || r.Type == "" {
		r.Trace = envelope.TraceFrom(d.msg.Metadata.Get)
		return r
	}
	r.Key = timer.Key{TenantID: d.origin.TenantID, ServiceCallID: d.origin.ServiceCallID}
	r.ID, r.CorrelationID, r.Commands = d.origin.ID, d.origin.CorrelationID, max(1, d.commands())
	return r
}

func (d *receivedMessage) handled(err error) Handled {
	h := Handled{Outcome: d.result.Outcome, Err: err}
	if h.Outcome == OutcomeInvalid {
		h.Reason = d.why().Reason
	}
	for _, r := range d.results {
		if r.Outcome != d.results[0].Outcome {
			h.Outcome = "several"
		}
	}
	return h
}
