package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// A shownTimer is a timer as get and list print it.
type shownTimer struct {
	TenantID      timer.TenantID      `json:"tenantId"`
	ServiceCallID timer.ServiceCallID `json:"serviceCallId"`
	State         timer.State         `json:"state"`
	DueAt         stamp               `json:"dueAt,omitzero"` // none for a tombstone
	RegisteredAt  stamp               `json:"registeredAt"`
	ReachedAt     stamp               `json:"reachedAt,omitzero"`
	LatenessMS    *int64              `json:"latenessMs,omitempty"`
	CanceledAt    stamp               `json:"canceledAt,omitzero"`
	CorrelationID string              `json:"correlationId,omitempty"`
	CommandID     string              `json:"commandId"`   // of the newest command that took effect
	TimestampMS   int64               `json:"timestampMs"` // of the same
}

func show(e timer.Entry) *shownTimer {
	s := &shownTimer{
		TenantID:      e.TenantID,
		ServiceCallID: e.ServiceCallID,
		State:         e.State,
		DueAt:         stamp(e.DueAt),
		RegisteredAt:  stamp(e.RegisteredAt),
		ReachedAt:     stamp(e.ReachedAt),
		CanceledAt:    stamp(e.CanceledAt),
		CorrelationID: e.CorrelationID,
		CommandID:     e.CommandID,
		TimestampMS:   e.TimestampMS,
	}
	if e.State == timer.Reached {
		late := e.ReachedAt.Sub(e.DueAt).Milliseconds()
		s.LatenessMS = &late
	}
	return s
}

func (s *shownTimer) text() string {
	var b strings.Builder
	line := func(name, value string) { fmt.Fprintf(&b, "%-14s %s\n", name, value) }
	line("tenant", string(s.TenantID))
	line("service call", string(s.ServiceCallID))
	line("state", string(s.State))
	line("due at", s.DueAt.String())
	line("registered at", s.RegisteredAt.String())
	if !s.ReachedAt.IsZero() {
		line("reached at", s.ReachedAt.String()+", "+s.late()+" late")
	}
	if !s.CanceledAt.IsZero() {
		line("canceled at", s.CanceledAt.String())
	}
	line("correlation", orDash(s.CorrelationID))
	line("command", fmt.Sprintf("%s of %s", s.CommandID, stamp(time.UnixMilli(s.TimestampMS))))
	return strings.TrimSuffix(b.String(), "\n")
}

// late returns how late the timer fired, or "-" if it did not.
func (s *shownTimer) late() string {
	if s.LatenessMS == nil {
		return "-"
	}
	return lateness(*s.LatenessMS)
}

// lateness returns milliseconds for people: exact for a timer that fired as it
// should, in seconds for one that an outage held up.
func lateness(ms int64) string {
	const exact = 10_000
	if ms < exact {
		return fmt.Sprintf("%d ms", ms)
	}
	return (time.Duration(ms) * time.Millisecond).Round(time.Second).String()
}
