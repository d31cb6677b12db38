package client

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// A Timer asks for an event about a service call of a tenant, at
// a time.
type Timer struct {
	TenantID      timer.TenantID      // whose it is
	ServiceCallID timer.ServiceCallID // the service call of the event; with the tenant the key of the timer
	DueAt         time.Time           // when it fires, rounded up to milliseconds; a time in the past is due at once
	After         time.Duration       // when it fires, from now on, in place of DueAt; one of the two must be given
	ExpiresAt     time.Time           // from when on it must not fire any more, as after an outage, but expires: after DueAt, rounded up to milliseconds; default it may fire at any time
	CorrelationID string              // trace of the request; default none
	Data          json.RawMessage     // any JSON value of at most 4 KiB, for the event; default none
	Version       timer.Version       // which of the commands of a key is the newest; default now, and a new UUIDv7
}

// Key returns the key of the timer.
func (t Timer) Key() timer.Key {
	return timer.Key{TenantID: t.TenantID, ServiceCallID: t.ServiceCallID}
}

// Command returns the command that asks for the timer, now, or a
// [timer.InvalidError] that names the field and the fix.
func (t Timer) Command(now time.Time) (timer.ScheduleTimer, error) {
	due := t.DueAt
	switch {
	case t.After == 0:
	case due.IsZero():
		due = now.Add(t.After)
	default:
		return timer.ScheduleTimer{}, timer.Invalid(timer.ReasonBadField, "DueAt and After exclude each other: give one")
	}
	c := timer.ScheduleTimer{
		Key:           t.Key(),
		Version:       version(t.Version, now),
		DueAt:         due,
		ExpiresAt:     t.ExpiresAt,
		CorrelationID: t.CorrelationID,
		Data:          string(t.Data),
	}
	return c, cmp.Or(c.Validate(), validateData(c.Data))
}

// validateData returns an error unless a timer may have the data: none, or a JSON value.
func validateData(data string) error {
	if data == "" {
		return nil
	}
	return envelope.ValidateData("data", data)
}
