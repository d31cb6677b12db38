package main

import (
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// Results of a command, as far as they are known.
const (
	resultPublished  = "published"  // the broker has it for good
	resultReached    = "reached"    // the timer fired
	resultDeadLetter = "deadLetter" // the service refused it
	resultTimeout    = "timeout"    // nothing was heard of it in time
)

// A published is a command that the broker has, and what became of it.
type published struct {
	Result        string              `json:"result"`
	Type          string              `json:"type"`
	ID            string              `json:"id"`
	TenantID      timer.TenantID      `json:"tenantId"`
	ServiceCallID timer.ServiceCallID `json:"serviceCallId"`
	TimestampMS   int64               `json:"timestampMs"`
	CorrelationID string              `json:"correlationId,omitempty"`
	DueAt         stamp               `json:"dueAt,omitzero"`
	Topic         string              `json:"topic"`

	EventID        string       `json:"eventId,omitempty"`
	ReachedAt      stamp        `json:"reachedAt,omitzero"`
	LatenessMS     *int64       `json:"latenessMs,omitempty"`     // reachedAt - dueAt, by the service's clock
	ArrivalDelayMS *int64       `json:"arrivalDelayMs,omitempty"` // arrival of the event here - dueAt
	Reason         timer.Reason `json:"reason,omitempty"`         // of a dead letter
	Detail         string       `json:"detail,omitempty"`
}

func publishedSchedule(asked timer.ScheduleTimer, cmd command) *published {
	p := newPublished(envelope.TypeScheduleTimer, asked.Key, asked.Version, asked.CorrelationID, cmd)
	p.DueAt = stamp(asked.DueAt)
	return p
}

func publishedCancel(asked timer.CancelTimer, cmd command) *published {
	return newPublished(envelope.TypeCancelTimer, asked.Key, asked.Version, asked.CorrelationID, cmd)
}

func newPublished(kind string, key timer.Key, version timer.Version, correlationID string, cmd command) *published {
	return &published{
		Result:        resultPublished,
		Type:          kind,
		ID:            version.CommandID,
		TenantID:      key.TenantID,
		ServiceCallID: key.ServiceCallID,
		TimestampMS:   version.TimestampMS,
		CorrelationID: correlationID,
		Topic:         cmd.topic,
	}
}

func (p *published) text() string {
	key := timer.Key{TenantID: p.TenantID, ServiceCallID: p.ServiceCallID}
	if p.DueAt.IsZero() {
		return fmt.Sprintf("%-10s %s  %s  id %s", resultPublished, key, p.Type, p.ID)
	}
	return fmt.Sprintf("%-10s %s  due %s  id %s", resultPublished, key, p.DueAt, p.ID)
}

// reached returns the line of a timer that fired.
func (p *published) reached() string {
	key := timer.Key{TenantID: p.TenantID, ServiceCallID: p.ServiceCallID}
	return fmt.Sprintf("%-10s %s  %s late, here after %s", resultReached, key, lateness(*p.LatenessMS), lateness(*p.ArrivalDelayMS))
}

// fired notes the event, which arrived at the time given.
func (p *published) fired(event timer.DueTimeReached, arrived time.Time) {
	late := event.Lateness().Milliseconds()
	delay := arrived.Sub(event.DueAt).Milliseconds()
	p.Result = resultReached
	p.EventID = event.ID
	p.ReachedAt = stamp(event.ReachedAt)
	p.LatenessMS, p.ArrivalDelayMS = &late, &delay
}
