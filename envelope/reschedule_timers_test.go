package envelope_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

func TestDecodeRefusesRescheduleTimers(t *testing.T) {
	t.Parallel()
	const prefix, dueAt, tenant = `"prefix":"order:42."`, `"dueAt":"2030-01-31T11:30:00.500Z"`, `"tenantId":"acme",`
	for _, c := range []struct {
		piece, with string
		reason      timer.Reason
		detail      string
	}{
		{`,` + prefix, ``, timer.ReasonMissingField, "exactly one of payload.serviceCallIds, payload.prefix and payload.correlationId"},
		{prefix, prefix + `,"correlationId":"a"`, timer.ReasonMissingField, "exactly one of"},
		{prefix, `"serviceCallIds":["a","b","a"]`, timer.ReasonBadField, "payload.serviceCallIds[2] is also in [0]"},
		{dueAt + `,`, ``, timer.ReasonMissingField, "payload.dueAt is missing"},
		{dueAt, `"dueAt":null`, timer.ReasonMissingField, "payload.dueAt is null"},
		{dueAt, `"dueAt":"2030-01-31T11:30:00.500"`, timer.ReasonBadTime, "payload.dueAt"},
		{tenant, tenant + `"aggregateId":"order:42.pay",`, timer.ReasonKeyMismatch, "aggregateId is not allowed in RescheduleTimers"},
	} {
		m, err := envelope.Decode(edit(t, "reschedule_timers.json", c.piece, c.with))
		invalid, ok := errors.AsType[*timer.InvalidError](err)
		if !ok || invalid.Reason != c.reason || !strings.Contains(invalid.Detail, c.detail) {
			t.Errorf("%s in place of %s: %+v, %v, want %s: %s", c.with, c.piece, m, err, c.reason, c.detail)
		}
	}
}
