package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/timer"
)

// TestGetSaysWhereAnEventIs, and the error of the broker.
func TestGetSaysWhereAnEventIs(t *testing.T) {
	t.Parallel()
	const at = "2026-01-01T00:00:00.000Z"
	for want, e := range map[string]admin.Event{
		"waits for the broker since " + at + " (":                {State: timer.Waiting, Since: at},
		"not published in 2 tries, the next at " + at + " (":     {State: timer.Deferred, Attempts: 2, RetryAt: at, Destination: "svc.acme", Reason: "too large"},
		"parked at " + at + " (":                                 {State: timer.Parked, Since: at, Reason: "too large"},
		"unknown: more than 10000 events wait, and it is not am": {State: timer.DeliveryUnknown},
		"published": {State: timer.Published},
	} {
		row, err := json.Marshal(e)
		must(t, err)
		got := forms["event"](string(row))
		if !strings.HasPrefix(got, want) || !strings.Contains(got, e.Reason) || !strings.Contains(got, e.Destination) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}
