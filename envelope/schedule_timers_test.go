package envelope_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

func TestDecodeIgnoresUnknownKeysOfScheduleTimers(t *testing.T) {
	t.Parallel()
	want, err := envelope.Decode(golden(t, "schedule_timers.json"))
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]variant{
		"of the payload": {piece: `"timers":`, with: `"dueAt":7,"serviceCallId":null,"reachedAt":[],"timers":`},
		"of a timer":     {piece: `{"serviceCallId":"order:43`, with: `{"note":{"a":[1]},"tenantId":"evil","DueAt":null,"serviceCallId":"order:43`},
		"escaped":        {piece: `{"serviceCallId":"order:43`, with: `{"service\u0043allId":"\u006frder:43`},
		"spaces":         {piece: `:[{`, with: ": [\n\t{"},
		"another zone":   {piece: `2030-02-01T00:00:00.000Z`, with: `2030-02-01T00:59:59.9991+01:00`},
	} {
		got, err := envelope.Decode(edit(t, "schedule_timers.json", v.piece, v.with))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestDecodeRefusesScheduleTimers(t *testing.T) {
	t.Parallel()
	const (
		inner  = `"payload":{"tenantId":"acme",`
		timers = `"timers":[`
		first  = `{"serviceCallId":"order:42.pay",`
		second = `"serviceCallId":"order:43.pay"`
		due    = `"dueAt":"2030-02-01T00:00:00.000Z"`
	)
	refuse(t, "schedule_timers.json", []refused{
		{"aggregate id", `"timestampMs"`, `"aggregateId":"order:42.pay","timestampMs"`, timer.ReasonKeyMismatch, "aggregateId is not allowed in ScheduleTimers"},
		{"no tenant in payload", inner, `"payload":{`, timer.ReasonMissingField, "payload.tenantId is missing"},

		{"no timers", timers, `"Timers":[`, timer.ReasonMissingField, "payload.timers is missing; it must be an array"},
		{"object as timers", timers, `"timers":{},"x":[`, timer.ReasonBadField, "payload.timers is an object"},
		{"empty timers", timers, `"timers":[],"x":[`, timer.ReasonMissingField, "timers is empty; send 1 to 500"},

		{"number as a timer", timers, timers + `7,`, timer.ReasonBadField, "timers[0] is a number"},
		{"array as a timer", `},{"serviceCallId"`, `},[],{"serviceCallId"`, timer.ReasonBadField, "timers[1] is an array"},
		{"no call", first, `{`, timer.ReasonMissingField, "timers[0].serviceCallId is missing; it must be a string"},
		{"empty call", second, `"serviceCallId":""`, timer.ReasonMissingField, "timers[1].serviceCallId is empty"},
		{"slash in call", second, `"serviceCallId":"a/b"`, timer.ReasonBadField, `timers[1].serviceCallId "a/b"`},
		{"call of another timer", second, `"serviceCallId":"order:42.pay"`, timer.ReasonBadField, `timers[1].serviceCallId "order:42.pay" is also in timers[0]`},
		{"no due time", due, `"x":1`, timer.ReasonMissingField, "timers[1].dueAt is missing; it must be a string"},
		{"due time without zone", due, `"dueAt":"2030-02-01T00:00:00"`, timer.ReasonBadTime, `timers[1].dueAt "2030-02-01T00:00:00" has no zone`},
		{"the first of two mistakes, of two kinds", timers, timers + `{"serviceCallId":"a/b","dueAt":"2030-02-01T00:00:00Z"},{},`, timer.ReasonBadField, "timers[0].serviceCallId"},
		{"the first of two mistakes, the other way round", timers, timers + `{},{"serviceCallId":"a/b","dueAt":"2030-02-01T00:00:00Z"},`, timer.ReasonMissingField, "timers[0].serviceCallId"},
	})
	refuse(t, "cloudevent_schedule_timers.json", []refused{
		{"subject", `"time"`, `"subject":"order:42.pay","time"`, timer.ReasonKeyMismatch, "subject is not allowed in ScheduleTimers"},
		{"no timers", timers, `"x":[`, timer.ReasonMissingField, "data.timers is missing"},
		{"data of two tenants", `"data":{"tenantId":"acme"`, `"data":{"tenantId":"evil"`, timer.ReasonTenantMismatch, `"evil"`},
	})
}

// A message has space for more than 500 typical timers. A body of more bytes or of
// more timers is refused.
func TestScheduleTimersKeepToTheLimits(t *testing.T) {
	t.Parallel()
	decode := func(c timer.ScheduleTimers) (timer.Reason, string) {
		m, err := envelope.Decode(envelope.ScheduleMany(c))
		if invalid, ok := errors.AsType[*timer.InvalidError](err); ok {
			return invalid.Reason, invalid.Detail
		}
		if diff := cmp.Diff(any(c), m.Payload); diff != "" {
			t.Errorf("%d timers (-want +got):\n%s", len(c.Commands), diff)
		}
		return "", ""
	}
	long := func(n, bytes int) timer.ScheduleTimers {
		c := many(n)
		for i := range c.Commands {
			c.Commands[i].ServiceCallID = timer.ServiceCallID(fmt.Sprintf("%0*d", bytes, i))
		}
		return c
	}
	for _, test := range []struct {
		name   string
		c      timer.ScheduleTimers
		reason timer.Reason
		detail string
	}{
		{"1", many(1), "", ""},
		{"500", many(500), "", ""},
		{"501", many(501), timer.ReasonBadField, "more than 500"},
		{"700", many(700), timer.ReasonBadField, "more than 500"},
		{"720", many(720), timer.ReasonTooLarge, "bytes"},
		{"500 of 74 bytes", long(500, 74), "", ""},
		{"500 of 76 bytes", long(500, 76), timer.ReasonTooLarge, "bytes"},
		{"350 of 128 bytes", long(350, 128), "", ""},
		{"360 of 128 bytes", long(360, 128), timer.ReasonTooLarge, "bytes"},
	} {
		if reason, detail := decode(test.c); reason != test.reason || !strings.Contains(detail, test.detail) {
			t.Errorf("%s: got %q, %s, want %q", test.name, reason, detail, test.reason)
		}
	}
}

// Valid commands come back as they went in, and what is invalid does not become
// valid on the way.
func TestScheduleTimersSurviveTheWire(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.StringMatching(`[!-~]{1,12}|.{0,3}`)
		c := timer.ScheduleTimers{
			TenantID: timer.TenantID(rapid.StringMatching(`[A-Za-z0-9_-]{0,5}`).Draw(t, "tenant")),
			Version:  timer.Version{TimestampMS: rapid.Int64Range(-1, 1<<53).Draw(t, "timestamp"), CommandID: id.Draw(t, "id")},
		}
		correlationID := rapid.OneOf(rapid.Just(""), id).Draw(t, "correlation")
		for range rapid.IntRange(0, 6).Draw(t, "timers") {
			c.Commands = append(c.Commands, timer.ScheduleTimer{
				Key:           timer.Key{TenantID: c.TenantID, ServiceCallID: timer.ServiceCallID(rapid.StringMatching(`[A-Za-z0-9_.:-]{1,3}|.`).Draw(t, "call"))},
				Version:       c.Version,
				DueAt:         time.UnixMilli(rapid.Int64Range(946684799999, 7289654400000).Draw(t, "due")).UTC(),
				CorrelationID: correlationID,
			})
		}
		m, err := envelope.Decode(envelope.ScheduleMany(c))
		if valid := c.Validate(); (valid == nil) != (err == nil) {
			t.Fatalf("decodes with error %v, is valid by %v", err, valid)
		}
		if err == nil {
			if diff := cmp.Diff(any(c), m.Payload); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
	})
}

// many returns a ScheduleTimers of n commands with ids of 36 characters.
func many(n int) timer.ScheduleTimers {
	c := timer.ScheduleTimers{TenantID: goldenSchedule.TenantID, Version: goldenSchedule.Version}
	for i := range n {
		command := goldenSchedule
		command.ServiceCallID = timer.ServiceCallID(fmt.Sprintf("0190b5a2-7c3e-7d4f-8a1b-%012d", i))
		command.DueAt = command.DueAt.Add(time.Duration(i) * time.Second)
		c.Commands = append(c.Commands, command)
	}
	return c
}
