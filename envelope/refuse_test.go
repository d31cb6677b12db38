package envelope_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// refused is a message that must not pass: a golden one with one piece replaced.
type refused struct {
	name, piece, with string
	reason            timer.Reason
	detail            string // a part of the detail
}

func (r refused) check(t *testing.T, file string) {
	t.Helper()
	body := edit(t, file, r.piece, r.with)
	m, err := envelope.Decode(body)
	invalid, ok := errors.AsType[*timer.InvalidError](err)
	if !ok {
		t.Fatalf("decodes to %+v with error %v from %s", m, err, body)
	}
	if invalid.Reason != r.reason || !strings.Contains(invalid.Detail, r.detail) {
		t.Errorf("got %s: %s\nwant %s: …%s…", invalid.Reason, invalid.Detail, r.reason, r.detail)
	}
	if m != (envelope.Message{}) {
		t.Errorf("returns %+v beside the error", m)
	}
	checkDetail(t, invalid.Detail)
}

// refuse checks that messages made of a file do not pass.
func refuse(t *testing.T, file string, tests []refused) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.check(t, file)
		})
	}
}

// checkDetail checks that a detail fits a header on every broker.
func checkDetail(t *testing.T, detail string) {
	t.Helper()
	if len(detail) > 400 {
		t.Errorf("detail has %d bytes: %s", len(detail), detail)
	}
	for i := range len(detail) {
		if c := detail[i]; c < ' ' || c == 0x7f {
			t.Errorf("detail has a control character: %q", detail)
			return
		}
	}
}

func TestDecodeRefusesCommands(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1000)
	const (
		id     = `"id":"0190b5a2-7c3e-7d4f-8a1b-2c3d4e5f6071",`
		kind   = `"type":"ScheduleTimer",`
		tenant = `"tenantId":"acme","aggregateId"`
		inner  = `{"tenantId":"acme",`
		agg    = `"aggregateId":"order:42.pay",`
		stamp  = `1893456000000`
		corr   = `"req-7f3a"`
		call   = `"serviceCallId":"order:42.pay",`
		due    = `,"dueAt":"2030-01-31T11:30:00.500Z"`
		dueAt  = `"2030-01-31T11:30:00.500Z"`
	)
	tests := []refused{
		{"no id", id, ``, timer.ReasonMissingField, "id is missing"},
		{"null id", id, `"id":null,`, timer.ReasonMissingField, "id is null"},
		{"object as id", id, `"id":{"a":"b"},`, timer.ReasonBadField, "id is an object"},
		{"array as id", id, `"id":["b"],`, timer.ReasonBadField, "id is an array"},
		{"boolean as id", id, `"id":true,`, timer.ReasonBadField, "id is a boolean"},
		{"long id", id, `"id":"` + long + `",`, timer.ReasonBadField, "id is longer"},
		{"line break in id", id, `"id":"a\r\nb",`, timer.ReasonBadField, `id "a\r\nb"`},
		{"id not ASCII", id, `"id":"é",`, timer.ReasonBadField, `id "\u00e9"`},

		{"no type", kind, ``, timer.ReasonMissingField, "type is missing"},
		{"empty type", kind, `"type":"",`, timer.ReasonMissingField, "type is empty"},

		{"no tenant", tenant, `"aggregateId"`, timer.ReasonMissingField, "tenantId is missing"},
		{"empty tenant", tenant, `"tenantId":"","aggregateId"`, timer.ReasonMissingField, "tenantId is empty"},
		{"wildcard as tenant", tenant, `"tenantId":"*","aggregateId"`, timer.ReasonBadField, "tenantId \"*\""},
		{"long tenant", tenant, `"tenantId":"` + long + `","aggregateId"`, timer.ReasonBadField, "tenantId is longer"},
		{"two tenants, one escaped", tenant, `"tenant\u0049d":"evil","tenantId":"acme","aggregateId"`, timer.ReasonDuplicateKey, `"tenantId"`},

		{"null timestamp", stamp, `null`, timer.ReasonMissingField, "timestampMs is null"},
		{"string as timestamp", stamp, `"1893456000000"`, timer.ReasonBadField, "timestampMs is a string; it must be an integer"},
		{"fraction", stamp, `1893456000000.0`, timer.ReasonBadField, "timestampMs"},
		{"negative timestamp", stamp, `-1`, timer.ReasonBadField, "timestampMs"},
		{"timestamp beyond 2^53-1", stamp, `9007199254740992`, timer.ReasonBadTime, "timestampMs"},
		{"nanoseconds as timestamp", stamp, `1893456000000000000`, timer.ReasonBadTime, "it looks like nanoseconds"},
		{"endless timestamp", stamp, strings.Repeat("9", 1000), timer.ReasonBadTime, "timestampMs"},
		{"leading zero", stamp, `01`, timer.ReasonNotJSON, "byte"},

		{"empty correlation id", corr, `""`, timer.ReasonMissingField, "correlationId is empty"},
		{"line break in correlation id", corr, `"a\nb"`, timer.ReasonBadField, "correlationId"},
		{"array as causation id", corr, corr + `,"causationId":[]`, timer.ReasonBadField, "causationId is an array"},

		{"number as aggregate id", agg, `"aggregateId":42,`, timer.ReasonBadField, "aggregateId is a number"},
		{"empty aggregate id", agg, `"aggregateId":"",`, timer.ReasonKeyMismatch, "aggregateId"},
		{"aggregate id of another call", agg, `"aggregateId":"order:43.pay",`, timer.ReasonKeyMismatch, "leave aggregateId out"},

		{"null payload", `"payload":{`, `"payload":null,"x":{`, timer.ReasonMissingField, "payload is null; it must be an object"},
		{"no payload", `"payload":{`, `"Payload":{`, timer.ReasonMissingField, "payload is missing"},

		{"no tenant in payload", inner, `{`, timer.ReasonMissingField, "payload.tenantId is missing"},
		{"number as tenant in payload", inner, `{"tenantId":1,`, timer.ReasonBadField, "payload.tenantId is a number"},
		{"another tenant in payload", inner, `{"tenantId":"evil",`, timer.ReasonTenantMismatch, `"evil"`},
		{"long tenant in payload", inner, `{"tenantId":"` + long + `",`, timer.ReasonTenantMismatch, "payload.tenantId"},
		{"two tenants in payload", inner, `{"tenantId":"acme","tenantId":"acme",`, timer.ReasonDuplicateKey, `"tenantId"`},

		{"no call", call, ``, timer.ReasonMissingField, "payload.serviceCallId is missing"},
		{"empty call", call, `"serviceCallId":"",`, timer.ReasonMissingField, "serviceCallId is empty"},
		{"slash in call", call, `"serviceCallId":"a/b",`, timer.ReasonBadField, `serviceCallId "a/b"`},
		{"dots as call", call, `"serviceCallId":"..",`, timer.ReasonBadField, `serviceCallId ".."`},

		{"no due time", due, ``, timer.ReasonMissingField, "payload.dueAt is missing"},
		{"empty due time", dueAt, `""`, timer.ReasonBadTime, "payload.dueAt"},
		{"due time without zone", dueAt, `"2030-01-31T11:30:00"`, timer.ReasonBadTime, `payload.dueAt "2030-01-31T11:30:00" has no zone`},
		{"endless due time", dueAt, `"2030-01-31T11:30:00.` + strings.Repeat("1", 60_000) + `"`, timer.ReasonBadTime, "has no zone"},
		{"due time beyond 2200", dueAt, `"2200-12-31T23:59:59.9999Z"`, timer.ReasonBadTime, "2000 to 2200"},
		{"line break in due time", dueAt, `"2030-01-31T11:30:00Z\r\nNats-Rollup: all"`, timer.ReasonBadTime, "payload.dueAt"},
		{"duplicate key of no interest", due, due + `,"x":{"y":1,"y":2}`, timer.ReasonDuplicateKey, `"y"`},
		{"long duplicate key", due, due + `,"` + long + `":1,"` + long + `":2`, timer.ReasonDuplicateKey, "xxx"},
		{"duplicate key not ASCII", due, due + `,"\u202e\n":1,"\u202e\n":2`, timer.ReasonDuplicateKey, `"\u202e\n"`},
	}
	refuse(t, "schedule_timer.json", tests)
}

func TestDecodeRefusesEvents(t *testing.T) {
	t.Parallel()
	const reached = `"2030-01-31T11:30:00.507Z"`
	refuse(t, "due_time_reached.json", []refused{
		{"no aggregate id", `"aggregateId":"order:42.pay",`, ``, timer.ReasonMissingField, "aggregateId is missing"},
		{"null aggregate id", `"aggregateId":"order:42.pay"`, `"aggregateId":null`, timer.ReasonMissingField, "aggregateId is missing"},
		{"another aggregate id", `"aggregateId":"order:42.pay"`, `"aggregateId":"order:43.pay"`, timer.ReasonKeyMismatch, "aggregateId"},
		{"no time of reaching", `,"reachedAt":` + reached, ``, timer.ReasonMissingField, "payload.reachedAt is missing"},
		{"wrong time of reaching", reached, `"2030-01-31T11:30:00,507Z"`, timer.ReasonBadTime, "payload.reachedAt"},
		{"no due time", `"dueAt":"2030-01-31T11:30:00.500Z",`, ``, timer.ReasonMissingField, "payload.dueAt is missing"},
		{"wrong due time", `"dueAt":"2030-01-31T11:30:00.500Z"`, `"dueAt":"soon"`, timer.ReasonBadTime, "payload.dueAt"},
	})
}

func TestDecodeRefusesWhatIsNotOneJSONObject(t *testing.T) {
	t.Parallel()
	whole := string(golden(t, "cancel_timer.json"))
	tests := []struct {
		name, body string
		reason     timer.Reason
		detail     string
	}{
		{"nothing", "", timer.ReasonNotJSON, "body is empty"},
		{"array", "[" + whole + "]", timer.ReasonNotJSON, "body is an array"},
		{"string", `"x"`, timer.ReasonNotJSON, "body is a string"},
		{"null", `null`, timer.ReasonNotJSON, "body is null"},
		{"text", `hello`, timer.ReasonNotJSON, "invalid character 'h'"},
		{"two objects", whole + whole, timer.ReasonNotJSON, "has more data after its object"},
		{"object and NUL", whole + "\x00", timer.ReasonNotJSON, "has more data after its object"},
		{"cut", whole[:len(whole)-1], timer.ReasonNotJSON, "unexpected EOF"},
		{"byte order mark", "\ufeff" + whole, timer.ReasonNotJSON, "byte order mark"},
		{"comment", "/**/" + whole, timer.ReasonNotJSON, "byte 0"},
		{"single quotes", `{'type':'X'}`, timer.ReasonNotJSON, "byte 1"},
		{"number as key", `{1:"X"}`, timer.ReasonNotJSON, "name must be a string"},
		{"control character in a string", "{\"type\":\"a\nb\"}", timer.ReasonNotJSON, "byte"},
		{"lone surrogate", `{"type":"X","a":"\ud800"}`, timer.ReasonNotJSON, "surrogate"},
		{"NaN", `{"type":"X","a":NaN}`, timer.ReasonNotJSON, "'N'"},
		{"Latin 1", "{\"type\":\"X\",\"a\":\"\xe9\"}", timer.ReasonNotUTF8, "UTF-8"},
		{"overlong slash", "{\"type\":\"X\",\"a\":\"\xc0\xaf\"}", timer.ReasonNotUTF8, "UTF-8"},
		{"not UTF-8 after the object", whole + "\xff", timer.ReasonNotUTF8, "UTF-8"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			m, err := envelope.Decode([]byte(test.body))
			invalid, ok := errors.AsType[*timer.InvalidError](err)
			if !ok {
				t.Fatalf("decodes to %+v with error %v", m, err)
			}
			if invalid.Reason != test.reason || !strings.Contains(invalid.Detail, test.detail) {
				t.Errorf("got %s: %s\nwant %s: …%s…", invalid.Reason, invalid.Detail, test.reason, test.detail)
			}
			checkDetail(t, invalid.Detail)
		})
	}
}
