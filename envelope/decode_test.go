package envelope_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// edit returns a golden message in which one piece is replaced.
func edit(t *testing.T, name, piece, with string) []byte {
	t.Helper()
	body := golden(t, name)
	if !bytes.Contains(body, []byte(piece)) {
		t.Fatalf("%s has no %s", name, piece)
	}
	return bytes.Replace(body, []byte(piece), []byte(with), 1)
}

// TestDecodeAcceptsVariants of the golden files, which say the same: keys in any order, with
// escapes and spaces, beside keys that are unknown.
func TestDecodeAcceptsVariants(t *testing.T) {
	t.Parallel()
	const (
		id     = `"id":"0190b5a2-7c3e-7d4f-8a1b-2c3d4e5f6071"`
		kind   = `"datacontenttype":"application/json",`
		corr   = `"correlationid":"req-7f3a",`
		tenant = `"tenantid":"acme",`
		second = `{"serviceCallId":"order:43`
	)
	for file, variants := range map[string][]struct{ name, piece, with string }{
		"schedule_timer.json": {
			{"the type last", `"type":"ScheduleTimer",`, ``},
			{"unknown keys", id, `"Type":"CancelTimer","TYPE":null,"traceId":"x","meta":{"deep":[[[[[[[[[[[[[[1]]]]]]]]]]]]]]},` + id},
			{"unknown keys of the payload", `"dueAt"`, `"note":[{"a":1},null],"TENANTID":"evil","reachedAt":7,"dueAt"`},
			{"escapes", `"payload":{"tenantId":"acme"`, `"payload":{"tenant\u0049d":"\u0061cme"`},
			{"another zone", `2030-01-31T11:30:00.500Z`, `2030-01-31T12:30:00.500+01:00`},
			{"spaces", `"payload":{`, "\r\n\t \"payload\" : { "},
		},
		"schedule_timers.json": {
			{"unknown keys of the payload", `"timers":`, `"dueAt":7,"serviceCallId":null,"reachedAt":[],"timers":`},
			{"unknown keys of a timer", second, `{"note":{"a":[1]},"tenantId":"evil","DueAt":null,"serviceCallId":"order:43`},
			{"escapes", second, `{"service\u0043allId":"\u006frder:43`},
			{"spaces", `:[{`, ": [\n\t{"},
			{"another zone", `2030-02-01T00:00:00.000Z`, `2030-02-01T00:59:59.9991+01:00`},
		},
		"cancel_timers.json": {{"null for other selections", `"prefix"`, `"serviceCallIds":null,"correlationId":null,"prefix"`}},
		"cloudevent_schedule_timer.json": {
			{"no tenantid", tenant, ``},
			{"null tenantid", tenant, `"tenantid":null,`},
			{"no content type", kind, ``},
			{"null content type", kind, `"datacontenttype":null,`},
			{"content type with a parameter", kind, `"datacontenttype":"Application/JSON; charset=UTF-8",`},
			{"content type of JSON by its suffix", kind, `"datacontenttype":"application/vnd.acme.timer+json",`},
			{"specversion not first", `"specversion":"1.0",` + id, id + `,"dataschema":"https://example.com/a","specversion":"1.0"`},
			{"attributes of others", corr, corr + `"partitionkey":"x","sequence":7,"flag":true,"schemaurl":null,`},
			{"keys of an envelope, which are ignored", corr, corr + `"payload":{"tenantId":"evil"},"aggregateId":"evil","timestampMs":1,"correlationId":"evil",`},
			{"an absolute source", `"/orders"`, `"https://user@[::1]:8080/a%20b?c=d#e"`},
			{"more in data", `"dueAt"`, `"note":[{"a":null}],"reachedAt":7,"dueAt"`},
			{"lower case in the time", `"2030-01-01T00:00:00Z"`, `"2030-01-01t00:00:00.000999z"`},
		},
	} {
		want, err := envelope.Decode(golden(t, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range variants {
			body := edit(t, file, v.piece, v.with)
			if v.name == "the type last" {
				body = append(body[:len(body)-1], `,"typ\u0065":"ScheduleTimer"}`...)
			}
			got, err := envelope.Decode(body)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%s, %s: %v (-want +got):\n%s", file, v.name, err, diff)
			}
		}
	}
}

func TestDecodeKeepsToTheLimits(t *testing.T) {
	t.Parallel()
	body := func(bytes int) []byte {
		const frame = `{"type":"X","pad":""}`
		return []byte(`{"type":"X","pad":"` + strings.Repeat("x", bytes-len(frame)) + `"}`)
	}
	nested := func(depth int, open, shut string) []byte {
		return []byte(`{"type":"X","a":` + strings.Repeat(open, depth-1) + "1" + strings.Repeat(shut, depth-1) + `}`)
	}
	tests := []struct {
		name string
		body []byte
		want timer.Reason // empty: none
	}{
		{"64 KiB", body(64 << 10), ""},
		{"a byte more", body(64<<10 + 1), timer.ReasonTooLarge},
		{"1 MiB of garbage", bytes.Repeat([]byte{0xff}, 1<<20), timer.ReasonTooLarge},
		{"16 arrays deep", nested(16, `[`, `]`), ""},
		{"17 arrays deep", nested(17, `[`, `]`), timer.ReasonTooDeep},
		{"16 objects deep", nested(16, `{"a":`, `}`), ""},
		{"17 objects deep", nested(17, `{"a":`, `}`), timer.ReasonTooDeep},
		{"deep and never closed", []byte(`{"a":` + strings.Repeat("[", 60_000)), timer.ReasonTooDeep},
		{"deep in the payload", edit(t, "cancel_timer.json", `"payload":{`, `"payload":{"x":`+strings.Repeat("[", 15)+strings.Repeat("]", 15)+`,`), timer.ReasonTooDeep},
		{"just not too deep in the payload", edit(t, "cancel_timer.json", `"payload":{`, `"payload":{"x":`+strings.Repeat("[", 14)+strings.Repeat("]", 14)+`,`), ""},
		{"deep in place of a number", edit(t, "cancel_timer.json", `"timestampMs":1893456000001`, `"timestampMs":`+strings.Repeat("[", 16)+strings.Repeat("]", 16)), timer.ReasonTooDeep},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := envelope.Decode(test.body)
			var reason timer.Reason
			if invalid, ok := errors.AsType[*timer.InvalidError](err); ok {
				reason = invalid.Reason
				checkDetail(t, invalid.Detail)
			}
			if reason != test.want {
				t.Errorf("got %v, want reason %q", err, test.want)
			}
		})
	}
}

// Teams may share a topic, and use other types and versions.
func TestMessagesOfOtherTypesAreNoErrors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, body string
		want       envelope.Message
	}{
		{"as ours", `{"id":"1","type":"OrderPlaced","tenantId":"acme","timestampMs":1,"correlationId":"c","payload":{}}`, envelope.Message{ID: "1", Type: "OrderPlaced", TenantID: "acme"}},
		{"type alone", `{"type":"OrderPlaced"}`, envelope.Message{Type: "OrderPlaced"}},
		{"everything else wrong", `{"id":7,"type":"OrderPlaced","tenantId":["acme"],"aggregateId":null,"timestampMs":"x","correlationId":{},"payload":[1]}`, envelope.Message{Type: "OrderPlaced"}},
		{"malformed id and tenant", `{"id":"a b","type":"OrderPlaced","tenantId":"_"}`, envelope.Message{Type: "OrderPlaced"}},
		{"null payload", `{"type":"OrderPlaced","payload":null}`, envelope.Message{Type: "OrderPlaced"}},
		{"our type in another case", `{"type":"scheduletimer"}`, envelope.Message{Type: "scheduletimer"}},
		{"type not ASCII", `{"type":"Aufträge\n"}`, envelope.Message{Type: "Aufträge\n"}},
		{"CloudEvent as ours", `{"specversion":"1.0","id":"1","type":"com.example.placed","source":"/orders","tenantid":"acme"}`, envelope.Message{ID: "1", Type: "com.example.placed", TenantID: "acme"}},
		{"CloudEvent with the tenant in its data", `{"specversion":"1.0","id":"1","type":"com.example.placed","data":{"tenantId":"acme"}}`, envelope.Message{ID: "1", Type: "com.example.placed", TenantID: "acme"}},
		{"CloudEvent with everything else wrong", `{"specversion":"0.3","id":7,"type":"x","tenantid":null,"tenantId":"evil","data":7,"data_base64":"","time":1}`, envelope.Message{Type: "x"}},
		{"CloudEvent of no version", `{"specversion":null,"type":"x","tenantid":"_","data":{"tenantId":"acme"}}`, envelope.Message{Type: "x"}},
	}
	for _, test := range tests {
		got, err := envelope.Decode([]byte(test.body))
		if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", test.name, err, diff)
		}
	}
}
