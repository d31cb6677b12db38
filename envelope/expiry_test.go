package envelope_test

import (
	"strings"
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

// A refusal names the field.
func TestDecodeReadsExpiry(t *testing.T) {
	t.Parallel()
	const due, expires, expired = `"2030-01-31T11:30:00.500Z"`, `"2030-01-31T12:30:00.000Z"`, `"2030-01-31T12:30:00.007Z"`
	many := `{"id":"1","type":"ScheduleTimers","tenantId":"acme","timestampMs":1893456000000,"payload":{"tenantId":"acme","timers":[{"serviceCallId":"a","dueAt":` + due +
		`},{"serviceCallId":"b","dueAt":` + due + `,"expiresAt":` + expires + `},{"serviceCallId":"c","dueAt":` + due + `}]}}`
	schedule, event := string(golden(t, "schedule_timer_expires.json")), string(golden(t, "timer_expired.json"))
	reached := strings.NewReplacer("TimerExpired", "DueTimeReached", "expiredAt", "reachedAt", expired, `"2030-01-31T12:29:59.999Z"`).Replace(event)
	for i, c := range []struct{ body, piece, with, detail string }{
		{schedule, expires, expires, ""},
		{schedule, expires, `null`, ""},
		{schedule, expires, `"2030-01-31T12:30:00+00:59"`, ""},
		{schedule, expires, `"2030-01-31T11:30:00.5000001Z"`, ""}, // which is kept as .501
		{schedule, expires, due, "payload.expiresAt must be after dueAt"},
		{schedule, expires, `"2030-01-31T12:30:00+01:00"`, "payload.expiresAt must be after dueAt"},
		{schedule, `"dueAt":` + due, `"dueAt":"2030-01-31T12:29:59.9999Z"`, "payload.expiresAt must be after dueAt"}, // which is kept as 12:30
		{schedule, expires, `"2030-01-31T12:30:00"`, "payload.expiresAt"},
		{schedule, expires, `""`, "payload.expiresAt"},
		{schedule, expires, `7`, "payload.expiresAt is a number"},
		{schedule, expires, `"2201-01-01T00:00:00Z"`, "payload.expiresAt"},
		{many, expires, expires, ""},
		{many, expires, `null`, ""},
		{many, expires, due, "timers[1].expiresAt must be after dueAt"},
		{many, expires, `"soon"`, "timers[1].expiresAt"},
		{event, expired, expires, ""},
		{event, expired, `"2030-01-31T12:29:59.999Z"`, "payload.expiredAt and payload.expiresAt do not say that the timer is Expired"},
		{event, expired, `null`, "payload.expiredAt is null"},
		{event, `,"expiredAt":` + expired, ``, "payload.expiredAt is missing"},
		{event, `"expiresAt":` + expires + `,`, ``, "payload.expiresAt is missing"},
		{event, expires, `null`, "payload.expiresAt is null"},
		{event, expires, `"2030-01-31T11:30:00Z"`, "payload.expiresAt must be after dueAt"},
		{event, `"aggregateId":"order:42.pay",`, ``, "aggregateId is missing"},
		{reached, expires, expires, ""},
		{reached, expires, `null`, ""},
		{reached, `12:29:59.999`, `12:30:00.000`, "payload.reachedAt and payload.expiresAt do not say that the timer is Reached"},
	} {
		if !strings.Contains(c.body, c.piece) {
			t.Fatalf("%s is not in %s", c.piece, c.body)
		}
		body := strings.Replace(c.body, c.piece, c.with, 1)
		checkDecode(t, []byte(body))
		_, err := envelope.Decode([]byte(body))
		if (c.detail == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.detail) {
			t.Errorf("%d: %v, want %q of %s", i, err, c.detail, body)
		}
	}
}
