package envelope_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// FuzzDecode checks that Decode never panics and gives a reason for each refusal, that the
// standard library reads each body that it accepts, that a message survives encoding, and
// that TenantOf and OriginOf agree.
func FuzzDecode(f *testing.F) {
	names, err := filepath.Glob("testdata/*.json")
	if err != nil || len(names) == 0 {
		f.Fatalf("no golden files: %v", err)
	}
	for _, name := range names {
		body, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Fuzz(checkDecode)
}

// checkDecode is the body of FuzzDecode.
func checkDecode(t *testing.T, body []byte) {
	m, err := envelope.Decode(body)
	tenant := envelope.TenantOf(body)
	if tenant != timer.NoTenant && tenant.Validate() != nil {
		t.Fatalf("TenantOf returns %q", tenant)
	}
	if err != nil {
		invalid, ok := errors.AsType[*timer.InvalidError](err)
		if !ok || invalid.Reason == "" {
			t.Fatalf("error %#v is no InvalidError with a reason", err)
		}
		checkDetail(t, invalid.Detail)
	} else if m.TenantID != "" && tenant != m.TenantID {
		t.Fatalf("TenantOf returns %q, Decode %q", tenant, m.TenantID)
	}
	checkOrigin(t, envelope.OriginOf(body), m, err)
	if err == nil && !(utf8.Valid(body) && json.Valid(body)) {
		t.Fatalf("decodes to %+v, though it is not JSON", m)
	}
	if err == nil && m.Payload != nil {
		checkSurvivesEncoding(t, m)
	}
}

// checkOrigin checks that the ids of any body are valid, and that those of a valid
// one are the ids that Decode reads.
func checkOrigin(t *testing.T, o envelope.Origin, m envelope.Message, err error) {
	t.Helper()
	if o.ID != "" && timer.ValidateID("id", o.ID) != nil || o.CorrelationID != "" && timer.ValidateID("id", o.CorrelationID) != nil ||
		o.ServiceCallID != "" && o.ServiceCallID.Validate() != nil {
		t.Fatalf("OriginOf returns %+v", o)
	}
	if err == nil && m.Payload != nil && (o.ID != m.ID || o.CorrelationID != m.CorrelationID) {
		t.Fatalf("OriginOf returns %+v, Decode %+v", o, m)
	}
}

// withoutTrace compares payloads as an envelope carries them.
var withoutTrace = cmpopts.IgnoreTypes(timer.Trace{})

func checkSurvivesEncoding(t *testing.T, m envelope.Message) {
	t.Helper()
	if c, is := m.Payload.(interface{ Validate() error }); is && envelope.CommandHeaders(m.Payload) != nil && c.Validate() != nil {
		t.Fatalf("decodes to an invalid command: %v", c.Validate())
	}
	body, _ := encodeAgain(m.Payload)
	if len(body) > envelope.MaxBytes {
		return // ours always writes milliseconds
	}
	switch payload := m.Payload.(type) {
	case timer.Receipt:
		again, err := envelope.Decode(body)
		m.AggregateID = string(payload.ServiceCallID) // ours always names it
		if diff := cmp.Diff(m, again, withoutTrace); err != nil || diff != "" {
			t.Fatalf("%v, after encoding (-before +after):\n%s", err, diff)
		}
		return
	case timer.DueTimeReached:
		m.TimestampMS = payload.ReachedAt.UnixMilli() // as in all that we encode
		compareFormats(t, m, payload)
	case timer.TimerExpired:
		m.TimestampMS = payload.ExpiredAt.UnixMilli()
		compareFormats(t, m, payload.Event())
	}
	m.CausationID = "" // the commands have none
	again, err := envelope.Decode(body)
	if err != nil {
		t.Fatalf("%v, from our own %s", err, body)
	}
	if m.AggregateID == "" {
		again.AggregateID = "" // ours always names it
	}
	if diff := cmp.Diff(m, again, withoutTrace); diff != "" {
		t.Fatalf("after encoding (-before +after):\n%s", diff)
	}
}

// compareFormats checks that an event as a CloudEvent has the same fields.
func compareFormats(t *testing.T, m envelope.Message, event timer.DueTimeReached) {
	t.Helper()
	body := envelope.Format{CloudEvents: true}.Reached(event)
	again, err := envelope.Decode(body)
	if err != nil {
		t.Fatalf("%v, from our own %s", err, body)
	}
	m.CausationID = "" // ours has none
	if diff := cmp.Diff(m, again); diff != "" {
		t.Fatalf("as a CloudEvent (-before +after):\n%s", diff)
	}
}

// FuzzDecodeCloudEvent checks what FuzzDecode does, of bodies that are more often
// CloudEvents: each attribute is fuzzed as its JSON.
func FuzzDecodeCloudEvent(f *testing.F) {
	f.Add(`"1.0"`, `"1"`, `"/a"`, "ScheduleTimer", `"c"`, `"2030-01-01T00:00:00.0009Z"`, `"application/json"`, `"acme"`, `"corr"`, `"`+parent+`"`, `" a=b "`, `{"tenantId":"acme","serviceCallId":"c","dueAt":"2030-01-01T00:00:00.0009Z"}`)
	f.Add(`"0.3"`, `"1"`, `"urn:a:b"`, "CancelTimer", `null`, `"2200-12-31T23:59:59.9999+00:01"`, `null`, `null`, `null`, `null`, `"a"`, `{"tenantId":"acme","serviceCallId":"c"}`)
	f.Add(`"1.0"`, `"1"`, `"%2f"`, "DueTimeReached", `"c"`, `"1999-12-31T23:59:59.9999Z"`, `"text/json;a=b"`, `"acme"`, `7`, `{}`, `""`, `{"tenantId":"acme","serviceCallId":"c","dueAt":"2030-01-01T00:00:00Z","reachedAt":"2030-01-01T00:00:00Z"}`)
	f.Add(`"1.0"`, `"1"`, `"a:b"`, "CancelTimer", `"c"`, `"2030-01-01T00:00:00Z","tenantId":"x"`, `"application/cloudevents+json"`, `""`, `"corr"`, `"00-00000000000000000000000000000000-b7ad6b7169203331-01"`, `""`, `{"tenantId":"acme","serviceCallId":"c"},"data_base64":"e30="`)
	f.Fuzz(func(t *testing.T, version, id, source, kind, subject, time, contentType, tenant, correlation, parent, state, data string) {
		checkDecode(t, []byte(`{"time":`+time+`,"type":"`+kind+`","id":`+id+`,"source":`+source+`,"subject":`+subject+`,"datacontenttype":`+contentType+
			`,"data":`+data+`,"tenantid":`+tenant+`,"correlationid":`+correlation+`,"traceparent":`+parent+`,"tracestate":`+state+`,"specversion":`+version+`}`))
	})
}

// FuzzDecodeData checks what FuzzDecode does, of bodies with data, wherever they
// may be; and that what ValidateData says is so.
func FuzzDecodeData(f *testing.F) {
	for _, data := range []string{`{"a":1}`, ` [1, 2 ] `, `null`, `""`, `"\u0000"`, `{"a":1,"a":2}`, `"\ud800"`, "\"\xff\"", `1e400`, `1}},{"x":{"y":2`, strings.Repeat("[", 12) + strings.Repeat("]", 12)} {
		f.Add(data)
	}
	const envelopeOf = `{"id":"1","tenantId":"acme","timestampMs":1893456000000,"aggregateId":"c",`
	f.Fuzz(func(t *testing.T, data string) {
		for _, body := range []string{
			envelopeOf + `"type":"ScheduleTimer","payload":{"tenantId":"acme","serviceCallId":"c","dueAt":"2030-01-01T00:00:00Z","data":` + data + `}}`,
			envelopeOf + `"type":"DueTimeReached","payload":{"data":` + data + `,"tenantId":"acme","serviceCallId":"c","dueAt":"2030-01-01T00:00:00Z","reachedAt":"2030-01-01T00:00:00Z"}}`,
			`{"id":"1","type":"ScheduleTimers","tenantId":"acme","timestampMs":1893456000000,"payload":{"tenantId":"acme","timers":[{"serviceCallId":"c","data":` + data + `,"dueAt":"2030-01-01T00:00:00Z"}]}}`,
			`{"specversion":"1.0","id":"1","source":"/","type":"ScheduleTimer","time":"2030-01-01T00:00:00Z","data":{"tenantId":"acme","serviceCallId":"c","dueAt":"2030-01-01T00:00:00Z","data":` + data + `}}`,
		} {
			checkDecode(t, []byte(body))
		}
		c := goldenSchedule
		c.Data = data
		m, err := envelope.Decode(envelope.Schedule(c))
		if wrong := envelope.ValidateData("data", data); data != "" && (wrong == nil) != (err == nil) {
			t.Fatalf("ValidateData says %v, Decode %v", wrong, err)
		}
		if err == nil && m.Payload != any(c) {
			t.Fatalf("got %+v, want %+v", m.Payload, c)
		}
	})
}

// FuzzParseTime checks that a time is never earlier than the text says, and less than a
// millisecond later, as the standard library reads it.
func FuzzParseTime(f *testing.F) {
	for _, s := range []string{
		"2030-01-31T11:30:00Z", "2030-12-31T23:59:59.9999+14:00", "2030-02-30t24:00:60,5z", "2000-02-29T00:00:00.000000001-00:01",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := envelope.ParseTime(s)
		if err != nil {
			return
		}
		if got.Location() != time.UTC || got.Year() < 2000 || got.Year() > 2200 {
			t.Fatalf("%q: got %v", s, got)
		}
		given, err := time.Parse(time.RFC3339, strings.ToUpper(s)) // cuts after nanoseconds
		if err != nil {
			t.Fatalf("%q: time.Parse says %v", s, err)
		}
		if late := got.Sub(given); late < 0 || late > time.Millisecond || late == time.Millisecond && !beyondNanoseconds.MatchString(s) {
			t.Fatalf("%q: got %v, which is %v later", s, got, late)
		}
		if text := envelope.FormatTime(got); len(text) != len("2030-01-31T11:30:00.000Z") {
			t.Fatalf("%q: formats as %s", s, text)
		} else if again, err := envelope.ParseTime(text); err != nil || again != got {
			t.Fatalf("%q: formats as %s, which is %v, %v", s, text, again, err)
		}
	})
}

var beyondNanoseconds = regexp.MustCompile(`\.[0-9]{10}`)
