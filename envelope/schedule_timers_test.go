package envelope_test

import (
	"bytes"
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

// goldenMany returns the commands of schedule_timers.json, with a trace.
func goldenMany(trace timer.Trace) timer.ScheduleTimers {
	first := goldenSchedule
	first.Trace = trace
	second := first
	second.ServiceCallID = "order:43.pay"
	second.DueAt = time.Date(2030, time.February, 1, 0, 0, 0, 0, time.UTC)
	return timer.ScheduleTimers{TenantID: "acme", Version: first.Version, Commands: []timer.ScheduleTimer{first, second}}
}

func TestScheduleTimersAreLikeGoldenFiles(t *testing.T) {
	t.Parallel()
	if got, want := envelope.ScheduleMany(goldenMany(goldenTrace)), golden(t, "schedule_timers.json"); !bytes.Equal(got, want) {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	for name, trace := range map[string]timer.Trace{"schedule_timers.json": {}, "cloudevent_schedule_timers.json": goldenTrace} {
		want := envelope.Message{
			ID: goldenSchedule.CommandID, Type: "ScheduleTimers", TenantID: "acme",
			TimestampMS: 1893456000000, CorrelationID: "req-7f3a", Payload: goldenMany(trace),
		}
		body := golden(t, name)
		got, err := envelope.Decode(body)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		clear(body) // the message shares no memory with it
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if got := envelope.TenantOf(golden(t, name)); got != "acme" {
			t.Errorf("%s: TenantOf returns %s", name, got)
		}
	}
}

func TestHeadersOfScheduleTimersNameNoServiceCall(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"type": "ScheduleTimers", "tenantId": "acme", "messageId": goldenSchedule.CommandID, "correlationId": "req-7f3a",
		"traceparent": parent, "tracestate": "vendor=1",
	}
	if diff := cmp.Diff(want, envelope.ScheduleManyHeaders(goldenMany(goldenTrace))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

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
	for _, test := range []refused{
		{"aggregate id", `"timestampMs"`, `"aggregateId":"order:42.pay","timestampMs"`, timer.ReasonKeyMismatch, "aggregateId is not allowed in ScheduleTimers"},
		{"no id", `"id"`, `"ID"`, timer.ReasonMissingField, "id is missing"},
		{"no tenant in payload", inner, `"payload":{`, timer.ReasonMissingField, "payload.tenantId is missing"},
		{"another tenant in payload", inner, `"payload":{"tenantId":"evil",`, timer.ReasonTenantMismatch, `"evil"`},
		{"null payload", `"payload":{`, `"payload":null,"x":{`, timer.ReasonMissingField, "payload is null"},

		{"no timers", timers, `"Timers":[`, timer.ReasonMissingField, "payload.timers is missing; it must be an array"},
		{"null timers", timers, `"timers":null,"x":[`, timer.ReasonMissingField, "payload.timers is null"},
		{"object as timers", timers, `"timers":{},"x":[`, timer.ReasonBadField, "payload.timers is an object"},
		{"string as timers", timers, `"timers":"[]","x":[`, timer.ReasonBadField, "payload.timers is a string"},
		{"empty timers", timers, `"timers":[],"x":[`, timer.ReasonMissingField, "timers is empty; send 1 to 500"},
		{"timers twice", timers, `"timers":[],"timers":[`, timer.ReasonDuplicateKey, `"timers"`},

		{"null as a timer", timers, timers + `null,`, timer.ReasonMissingField, "timers[0] is null; it must be an object"},
		{"number as a timer", timers, timers + `7,`, timer.ReasonBadField, "timers[0] is a number"},
		{"array as a timer", `},{"serviceCallId"`, `},[],{"serviceCallId"`, timer.ReasonBadField, "timers[1] is an array"},
		{"no call", first, `{`, timer.ReasonMissingField, "timers[0].serviceCallId is missing; it must be a string"},
		{"null call", second, `"serviceCallId":null`, timer.ReasonMissingField, "timers[1].serviceCallId is null"},
		{"empty call", second, `"serviceCallId":""`, timer.ReasonMissingField, "timers[1].serviceCallId is empty"},
		{"number as call", second, `"serviceCallId":43`, timer.ReasonBadField, "timers[1].serviceCallId is a number"},
		{"slash in call", second, `"serviceCallId":"a/b"`, timer.ReasonBadField, `timers[1].serviceCallId "a/b"`},
		{"long call", second, `"serviceCallId":"` + strings.Repeat("x", 129) + `"`, timer.ReasonBadField, "timers[1].serviceCallId is longer"},
		{"call in another case", second, `"serviceCallID":"order:43.pay"`, timer.ReasonMissingField, "timers[1].serviceCallId is missing"},
		{"call twice in a timer", second, second + `,` + second, timer.ReasonDuplicateKey, `"serviceCallId"`},
		{"call of another timer", second, `"serviceCallId":"order:42.pay"`, timer.ReasonBadField, `timers[1].serviceCallId "order:42.pay" is also in timers[0]`},
		{"no due time", due, `"x":1`, timer.ReasonMissingField, "timers[1].dueAt is missing; it must be a string"},
		{"null due time", due, `"dueAt":null`, timer.ReasonMissingField, "timers[1].dueAt is null"},
		{"number as due time", due, `"dueAt":1896089400500`, timer.ReasonBadField, "timers[1].dueAt is a number"},
		{"due time without zone", due, `"dueAt":"2030-02-01T00:00:00"`, timer.ReasonBadTime, `timers[1].dueAt "2030-02-01T00:00:00" has no zone`},
		{"due time beyond 2200", due, `"dueAt":"2200-12-31T23:59:59.9999Z"`, timer.ReasonBadTime, "timers[1].dueAt"},
		{"the first of two mistakes, of two kinds", timers, timers + `{"serviceCallId":"a/b","dueAt":"2030-02-01T00:00:00Z"},{},`, timer.ReasonBadField, "timers[0].serviceCallId"},
		{"the first of two mistakes, the other way round", timers, timers + `{},{"serviceCallId":"a/b","dueAt":"2030-02-01T00:00:00Z"},`, timer.ReasonMissingField, "timers[0].serviceCallId"},
		{"too deep in a timer", second, second + `,"data":` + strings.Repeat("[", 13) + strings.Repeat("]", 13), timer.ReasonTooDeep, "16"},
		{"duplicate key of no interest", second, second + `,"data":{"y":1,"y":2}`, timer.ReasonDuplicateKey, `"y"`},
		{"not UTF-8 in a timer", second, second + ",\"data\":\"\xff\"", timer.ReasonNotUTF8, "UTF-8"},
		{"lone surrogate in a timer", second, second + `,"data":"\ud800"`, timer.ReasonNotJSON, "surrogate"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.check(t, "schedule_timers.json")
		})
	}
	for _, test := range []refused{
		{"subject", `"time"`, `"subject":"order:42.pay","time"`, timer.ReasonKeyMismatch, "subject is not allowed in ScheduleTimers"},
		{"no timers", timers, `"x":[`, timer.ReasonMissingField, "data.timers is missing"},
		{"data of two tenants", `"data":{"tenantId":"acme"`, `"data":{"tenantId":"evil"`, timer.ReasonTenantMismatch, `"evil"`},
	} {
		t.Run("CloudEvent with "+test.name, func(t *testing.T) {
			t.Parallel()
			test.check(t, "cloudevent_schedule_timers.json")
		})
	}
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
