package envelope_test

import (
	"bytes"
	"testing"

	"github.com/event-service-agent/timer-service/timer"
)

func TestDecodeRefusesCancelTimers(t *testing.T) {
	t.Parallel()
	const prefix, tenant = `"prefix":"order:42."`, `"tenantId":"acme",`
	refuse(t, "cancel_timers.json", []refused{
		{"nothing selected", `,` + prefix, ``, timer.ReasonMissingField, "exactly one of payload.serviceCallIds, payload.prefix and payload.correlationId"},
		{"two selections", prefix, prefix + `,"correlationId":"a"`, timer.ReasonMissingField, "exactly one of"},
		{"no service calls", prefix, `"serviceCallIds":[]`, timer.ReasonMissingField, "exactly one of"},
		{"a text of service calls", prefix, `"serviceCallIds":"a"`, timer.ReasonBadField, "payload.serviceCallIds is a string; it must be an array of strings"},
		{"a number among service calls", prefix, `"serviceCallIds":["a",7]`, timer.ReasonBadField, "must be an array of strings"},
		{"a service call with a space", prefix, `"serviceCallIds":["a","b c"]`, timer.ReasonBadField, `payload.serviceCallIds[1] is "b c"`},
		{"a service call twice", prefix, `"serviceCallIds":["a","b","a"]`, timer.ReasonBadField, "payload.serviceCallIds[2] is also in [0]"},
		{"501 service calls", prefix, `"serviceCallIds":["a"` + string(bytes.Repeat([]byte(`,"a"`), 500)) + `]`, timer.ReasonBadField, "more than 500 items"},
		{"a prefix with a space", prefix, `"prefix":"order 42"`, timer.ReasonBadField, "payload.prefix"},
		{"an aggregate", tenant, tenant + `"aggregateId":"order:42.pay",`, timer.ReasonKeyMismatch, "aggregateId is not allowed in CancelTimers"},
	})
}
