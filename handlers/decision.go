package handlers

import (
	"time"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// A Decision is the outcome of one command of a delivery, for [Options.Watch].
type Decision struct {
	Result
	timer.Key               // of the command; if that is invalid, the part of the key that can be read
	ID            string    // of the message
	CorrelationID string    // of the command; may be empty
	DueAt         time.Time // of a ScheduleTimer
	Reason        string    // why the command is invalid
	Detail        string    // the same in more words, for people
}

// decisions calls watch with the outcome of each command of a delivery.
func (d *delivery) decisions(watch func(Decision)) {
	decided := func(key timer.Key, id, correlationID string, due time.Time, outcome string) {
		watch(Decision{
			Result: Result{d.result.Type, outcome}, Key: key, ID: id, CorrelationID: correlationID, DueAt: due,
			Reason: d.msg.Metadata.Get(envelope.HeaderDeadLetterReason), Detail: d.msg.Metadata.Get(envelope.HeaderDeadLetterDetail),
		})
	}
	outcome := func(i int) string {
		if i < len(d.results) {
			return d.results[i].Outcome.String()
		}
		return d.result.Outcome
	}
	switch {
	case len(d.schedules) > 0:
		for i, c := range d.schedules {
			decided(c.Key, c.CommandID, c.CorrelationID, c.DueAt, outcome(i))
		}
	case d.cancel.CommandID != "":
		calls := d.canceled
		switch {
		case d.results != nil:
		case len(d.cancel.Of.Calls) > 0:
			calls = d.cancel.Of.Calls
		default: // it is not known which
			calls = []timer.ServiceCallID{""}
		}
		for i, call := range calls {
			decided(timer.Key{TenantID: d.cancel.TenantID, ServiceCallID: call}, d.cancel.CommandID, d.cancel.CorrelationID, time.Time{}, outcome(i))
		}
	default:
		from := envelope.OriginOf(d.msg.Payload)
		key := timer.Key{TenantID: envelope.TenantOf(d.msg.Payload), ServiceCallID: from.ServiceCallID}
		decided(key, from.ID, from.CorrelationID, time.Time{}, outcome(0))
	}
}
