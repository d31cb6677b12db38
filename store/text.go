package store

import (
	"fmt"
	"strings"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// Printable returns an error text of a broker as text that all databases can hold.
func Printable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// ParkedHeaders sets what the headers of a parked event say.
func ParkedHeaders(e *timer.ParkedEvent, text string) error {
	h, err := envelope.DecodeHeaders(text)
	if err != nil {
		return fmt.Errorf("event %d: %w", e.Seq, err)
	}
	e.TenantID, e.ServiceCallID = timer.TenantID(h[envelope.HeaderTenantID]), timer.ServiceCallID(h[envelope.HeaderServiceCallID])
	e.CorrelationID = h[envelope.HeaderCorrelationID]
	return nil
}
