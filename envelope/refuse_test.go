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
		{"empty id", id, `"id":"",`, timer.ReasonMissingField, "id is empty"},
		{"number as id", id, `"id":7,`, timer.ReasonBadField, "id is a number; it must be a string"},
		{"object as id", id, `"id":{"a":"b"},`, timer.ReasonBadField, "id is an object"},
		{"array as id", id, `"id":["b"],`, timer.ReasonBadField, "id is an array"},
		{"boolean as id", id, `"id":true,`, timer.ReasonBadField, "id is a boolean"},
		{"long id", id, `"id":"` + long + `",`, timer.ReasonBadField, "id is longer"},
		{"space in id", id, `"id":"a b",`, timer.ReasonBadField, `id "a b"`},
		{"line break in id", id, `"id":"a\r\nb",`, timer.ReasonBadField, `id "a\r\nb"`},
		{"id not ASCII", id, `"id":"é",`, timer.ReasonBadField, `id "\u00e9"`},
		{"id in another case", id, `"ID":"7",`, timer.ReasonMissingField, "id is missing"},

		{"no type", kind, ``, timer.ReasonMissingField, "type is missing"},
		{"null type", kind, `"type":null,`, timer.ReasonMissingField, "type is null"},
		{"empty type", kind, `"type":"",`, timer.ReasonMissingField, "type is empty"},
		{"number as type", kind, `"type":1,`, timer.ReasonBadField, "type is a number"},
		{"two types", kind, kind + `"type":"CancelTimer",`, timer.ReasonDuplicateKey, `"type"`},

		{"no tenant", tenant, `"aggregateId"`, timer.ReasonMissingField, "tenantId is missing"},
		{"null tenant", tenant, `"tenantId":null,"aggregateId"`, timer.ReasonMissingField, "tenantId is null"},
		{"empty tenant", tenant, `"tenantId":"","aggregateId"`, timer.ReasonMissingField, "tenantId is empty"},
		{"wildcard as tenant", tenant, `"tenantId":"*","aggregateId"`, timer.ReasonBadField, "tenantId \"*\""},
		{"dot in tenant", tenant, `"tenantId":"a.b","aggregateId"`, timer.ReasonBadField, "tenantId"},
		{"tenant of dead letters", tenant, `"tenantId":"_","aggregateId"`, timer.ReasonBadField, "tenantId"},
		{"long tenant", tenant, `"tenantId":"` + long + `","aggregateId"`, timer.ReasonBadField, "tenantId is longer"},
		{"NUL in tenant", tenant, `"tenantId":"acme\u0000","aggregateId"`, timer.ReasonBadField, "tenantId"},
		{"two tenants", tenant, `"tenantId":"evil","tenantId":"acme","aggregateId"`, timer.ReasonDuplicateKey, `"tenantId"`},
		{"two tenants, one escaped", tenant, `"tenant\u0049d":"evil","tenantId":"acme","aggregateId"`, timer.ReasonDuplicateKey, `"tenantId"`},

		{"no timestamp", `"timestampMs":` + stamp + `,`, ``, timer.ReasonMissingField, "timestampMs is missing"},
		{"null timestamp", stamp, `null`, timer.ReasonMissingField, "timestampMs is null"},
		{"string as timestamp", stamp, `"1893456000000"`, timer.ReasonBadField, "timestampMs is a string; it must be an integer"},
		{"fraction", stamp, `1893456000000.0`, timer.ReasonBadField, "timestampMs"},
		{"exponent", stamp, `1e12`, timer.ReasonBadField, "timestampMs"},
		{"negative timestamp", stamp, `-1`, timer.ReasonBadField, "timestampMs"},
		{"negative zero", stamp, `-0`, timer.ReasonBadField, "timestampMs"},
		{"timestamp beyond 2^53-1", stamp, `9007199254740992`, timer.ReasonBadTime, "timestampMs"},
		{"nanoseconds as timestamp", stamp, `1893456000000000000`, timer.ReasonBadTime, "it looks like nanoseconds"},
		{"timestamp beyond 64 bits", stamp, `18446744073709551617`, timer.ReasonBadTime, "timestampMs"},
		{"endless timestamp", stamp, strings.Repeat("9", 1000), timer.ReasonBadTime, "timestampMs"},
		{"leading zero", stamp, `01`, timer.ReasonNotJSON, "byte"},

		{"empty correlation id", corr, `""`, timer.ReasonMissingField, "correlationId is empty"},
		{"number as correlation id", corr, `7`, timer.ReasonBadField, "correlationId is a number"},
		{"long correlation id", corr, `"` + long + `"`, timer.ReasonBadField, "correlationId is longer"},
		{"line break in correlation id", corr, `"a\nb"`, timer.ReasonBadField, "correlationId"},
		{"empty causation id", corr, corr + `,"causationId":""`, timer.ReasonMissingField, "causationId is empty"},
		{"array as causation id", corr, corr + `,"causationId":[]`, timer.ReasonBadField, "causationId is an array"},

		{"number as aggregate id", agg, `"aggregateId":42,`, timer.ReasonBadField, "aggregateId is a number"},
		{"empty aggregate id", agg, `"aggregateId":"",`, timer.ReasonKeyMismatch, "aggregateId"},
		{"aggregate id of another call", agg, `"aggregateId":"order:43.pay",`, timer.ReasonKeyMismatch, "leave aggregateId out"},

		{"null payload", `"payload":{`, `"payload":null,"x":{`, timer.ReasonMissingField, "payload is null; it must be an object"},
		{"no payload", `"payload":{`, `"Payload":{`, timer.ReasonMissingField, "payload is missing"},
		{"string as payload", `"payload":{`, `"payload":"{}","x":{`, timer.ReasonBadField, "payload is a string"},
		{"array as payload", `"payload":{`, `"payload":[{"tenantId":"acme"}],"x":{`, timer.ReasonBadField, "payload is an array"},
		{"two payloads", `"payload":{`, `"payload":{},"payload":{`, timer.ReasonDuplicateKey, `"payload"`},

		{"no tenant in payload", inner, `{`, timer.ReasonMissingField, "payload.tenantId is missing"},
		{"null tenant in payload", inner, `{"tenantId":null,`, timer.ReasonMissingField, "payload.tenantId is null"},
		{"number as tenant in payload", inner, `{"tenantId":1,`, timer.ReasonBadField, "payload.tenantId is a number"},
		{"another tenant in payload", inner, `{"tenantId":"evil",`, timer.ReasonTenantMismatch, `"evil"`},
		{"another case in payload", inner, `{"tenantId":"Acme",`, timer.ReasonTenantMismatch, `"Acme"`},
		{"long tenant in payload", inner, `{"tenantId":"` + long + `",`, timer.ReasonTenantMismatch, "payload.tenantId"},
		{"two tenants in payload", inner, `{"tenantId":"acme","tenantId":"acme",`, timer.ReasonDuplicateKey, `"tenantId"`},

		{"no call", call, ``, timer.ReasonMissingField, "payload.serviceCallId is missing"},
		{"null call", call, `"serviceCallId":null,`, timer.ReasonMissingField, "payload.serviceCallId is null"},
		{"empty call", call, `"serviceCallId":"",`, timer.ReasonMissingField, "serviceCallId is empty"},
		{"number as call", call, `"serviceCallId":42,`, timer.ReasonBadField, "payload.serviceCallId is a number"},
		{"slash in call", call, `"serviceCallId":"a/b",`, timer.ReasonBadField, `serviceCallId "a/b"`},
		{"dots as call", call, `"serviceCallId":"..",`, timer.ReasonBadField, `serviceCallId ".."`},
		{"long call", call, `"serviceCallId":"` + long + `",`, timer.ReasonBadField, "serviceCallId is longer"},

		{"no due time", due, ``, timer.ReasonMissingField, "payload.dueAt is missing"},
		{"null due time", dueAt, `null`, timer.ReasonMissingField, "payload.dueAt is null"},
		{"empty due time", dueAt, `""`, timer.ReasonBadTime, "payload.dueAt"},
		{"number as due time", dueAt, `1896089400500`, timer.ReasonBadField, "payload.dueAt is a number"},
		{"due time without zone", dueAt, `"2030-01-31T11:30:00"`, timer.ReasonBadTime, `payload.dueAt "2030-01-31T11:30:00" has no zone`},
		{"due time beyond 2200", dueAt, `"2200-12-31T23:59:59.9999Z"`, timer.ReasonBadTime, "2000 to 2200"},
		{"line break in due time", dueAt, `"2030-01-31T11:30:00Z\r\nNats-Rollup: all"`, timer.ReasonBadTime, "payload.dueAt"},
		{"duplicate key of no interest", due, due + `,"x":{"y":1,"y":2}`, timer.ReasonDuplicateKey, `"y"`},
		{"long duplicate key", due, due + `,"` + long + `":1,"` + long + `":2`, timer.ReasonDuplicateKey, "xxx"},
		{"duplicate key not ASCII", due, due + `,"\u202e\n":1,"\u202e\n":2`, timer.ReasonDuplicateKey, `"\u202e\n"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.check(t, "schedule_timer.json")
		})
	}
}

func TestDecodeRefusesEvents(t *testing.T) {
	t.Parallel()
	const reached = `"2030-01-31T11:30:00.507Z"`
	for _, test := range []refused{
		{"no aggregate id", `"aggregateId":"order:42.pay",`, ``, timer.ReasonMissingField, "aggregateId is missing"},
		{"null aggregate id", `"aggregateId":"order:42.pay"`, `"aggregateId":null`, timer.ReasonMissingField, "aggregateId is missing"},
		{"another aggregate id", `"aggregateId":"order:42.pay"`, `"aggregateId":"order:43.pay"`, timer.ReasonKeyMismatch, "aggregateId"},
		{"no time of reaching", `,"reachedAt":` + reached, ``, timer.ReasonMissingField, "payload.reachedAt is missing"},
		{"null time of reaching", reached, `null`, timer.ReasonMissingField, "payload.reachedAt is null"},
		{"wrong time of reaching", reached, `"2030-01-31T11:30:00,507Z"`, timer.ReasonBadTime, "payload.reachedAt"},
		{"no due time", `"dueAt":"2030-01-31T11:30:00.500Z",`, ``, timer.ReasonMissingField, "payload.dueAt is missing"},
		{"wrong due time", `"dueAt":"2030-01-31T11:30:00.500Z"`, `"dueAt":"soon"`, timer.ReasonBadTime, "payload.dueAt"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.check(t, "due_time_reached.json")
		})
	}
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
		{"space", " \r\n\t", timer.ReasonNotJSON, "body is empty"},
		{"array", "[" + whole + "]", timer.ReasonNotJSON, "body is an array"},
		{"string", `"x"`, timer.ReasonNotJSON, "body is a string"},
		{"null", `null`, timer.ReasonNotJSON, "body is null"},
		{"number", `1`, timer.ReasonNotJSON, "body is a number"},
		{"boolean", `false`, timer.ReasonNotJSON, "body is a boolean"},
		{"text", `hello`, timer.ReasonNotJSON, "invalid character 'h'"},
		{"start of a literal", `nul`, timer.ReasonNotJSON, "unexpected EOF"},
		{"two objects", whole + whole, timer.ReasonNotJSON, "has more data after its object"},
		{"object and comma", whole + ",", timer.ReasonNotJSON, "has more data after its object"},
		{"object and NUL", whole + "\x00", timer.ReasonNotJSON, "has more data after its object"},
		{"object and no-break space", whole + "\u00a0", timer.ReasonNotJSON, "has more data after its object"},
		{"cut", whole[:len(whole)-1], timer.ReasonNotJSON, "unexpected EOF"},
		{"cut in a string", whole[:10], timer.ReasonNotJSON, "unexpected EOF"},
		{"byte order mark", "\ufeff" + whole, timer.ReasonNotJSON, "byte order mark"},
		{"UTF-16", "{\x00\"\x00i\x00", timer.ReasonNotJSON, "byte 1"},
		{"comment", "/**/" + whole, timer.ReasonNotJSON, "byte 0"},
		{"trailing comma", `{"type":"X",}`, timer.ReasonNotJSON, "byte 11"},
		{"single quotes", `{'type':'X'}`, timer.ReasonNotJSON, "byte 1"},
		{"bare key", `{kind:"X"}`, timer.ReasonNotJSON, "byte 1"},
		{"number as key", `{1:"X"}`, timer.ReasonNotJSON, "name must be a string"},
		{"object as key", `{{}:"X"}`, timer.ReasonNotJSON, "name must be a string"},
		{"control character in a string", "{\"type\":\"a\nb\"}", timer.ReasonNotJSON, "byte"},
		{"lone surrogate", `{"type":"X","a":"\ud800"}`, timer.ReasonNotJSON, "surrogate"},
		{"unknown escape", `{"type":"X","a":"\x41"}`, timer.ReasonNotJSON, "escape"},
		{"NaN", `{"type":"X","a":NaN}`, timer.ReasonNotJSON, "'N'"},
		{"letter not ASCII", `{"type":"X",é`, timer.ReasonNotJSON, "byte"},
		{"Latin 1", "{\"type\":\"X\",\"a\":\"\xe9\"}", timer.ReasonNotUTF8, "UTF-8"},
		{"overlong slash", "{\"type\":\"X\",\"a\":\"\xc0\xaf\"}", timer.ReasonNotUTF8, "UTF-8"},
		{"surrogate in UTF-8", "{\"type\":\"X\",\"a\":\"\xed\xa0\x80\"}", timer.ReasonNotUTF8, "UTF-8"},
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
