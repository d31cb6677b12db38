package envelope_test

import (
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// An event that fired in time says when it would have expired.
func TestAnEventThatFiredCarriesItsExpiry(t *testing.T) {
	t.Parallel()
	e := goldenReached
	e.ExpiresAt = goldenExpiresAt.Add(-time.Millisecond + 1) // rounded up
	m, err := envelope.Decode(envelope.Reached(e))
	if got, ok := m.Payload.(timer.DueTimeReached); err != nil || !ok || !got.ExpiresAt.Equal(goldenExpiresAt) || m.ID != envelope.EventID(goldenReached) {
		t.Errorf("%v, %+v", err, m)
	}
}
