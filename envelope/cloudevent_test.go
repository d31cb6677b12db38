package envelope_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

var (
	cloudEvents = envelope.Format{CloudEvents: true}
	goldenTrace = timer.Trace{Parent: parent, State: "vendor=1"}
)

func TestCloudEventsEncodeLikeGoldenFile(t *testing.T) {
	t.Parallel()
	e := goldenReached
	e.Trace = goldenTrace
	want := golden(t, "cloudevent_due_time_reached.json")
	if got := cloudEvents.Reached(e); !bytes.Equal(got, want) {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	elsewhere := envelope.Format{CloudEvents: true, Source: "https://timers.example.com/eu?a=b&c"}
	want = bytes.Replace(want, []byte(`"/timer-service"`), []byte(`"https://timers.example.com/eu?a=b&c"`), 1)
	if got := elsewhere.Reached(e); !bytes.Equal(got, want) {
		t.Errorf("from elsewhere:\n got %s\nwant %s", got, want)
	}
}

func TestCloudEventsLeaveOutWhatIsEmpty(t *testing.T) {
	t.Parallel()
	e := goldenReached
	e.CorrelationID = ""
	e.Trace.State = "vendor=1" // has no meaning without a parent
	want := strings.NewReplacer(`"correlationid":"req-7f3a",`, "", `"traceparent":"`+parent+`","tracestate":"vendor=1",`, "").
		Replace(string(golden(t, "cloudevent_due_time_reached.json")))
	if got := string(cloudEvents.Reached(e)); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func TestFormatsDifferInContentType(t *testing.T) {
	t.Parallel()
	e := goldenReached
	e.Trace = goldenTrace
	plain := envelope.Format{}
	if got, want := plain.Reached(e), envelope.Reached(e); !bytes.Equal(got, want) {
		t.Errorf("the zero format writes %s, want %s", got, want)
	}
	if diff := cmp.Diff(envelope.HeadersOf(e), plain.HeadersOf(e)); diff != "" {
		t.Errorf("headers of the zero format (-want +got):\n%s", diff)
	}
	want := envelope.HeadersOf(e)
	want["content-type"] = "application/cloudevents+json"
	if diff := cmp.Diff(want, cloudEvents.HeadersOf(e)); diff != "" {
		t.Errorf("headers of CloudEvents (-want +got):\n%s", diff)
	}
	for _, f := range []envelope.Format{plain, cloudEvents} {
		got, err := envelope.DecodeHeaders(string(envelope.EncodeHeaders(f.HeadersOf(e))))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(f.HeadersOf(e), got); diff != "" {
			t.Errorf("%+v: encoded headers (-want +got):\n%s", f, diff)
		}
	}
}

func TestDecodesCloudEvents(t *testing.T) {
	t.Parallel()
	schedule := goldenSchedule
	schedule.Trace = goldenTrace
	cancel := goldenCancel
	cancel.TimestampMS = 1893456000001 // what is finer than a millisecond is cut off
	reached := goldenReached
	reached.ID, reached.CommandID, reached.Trace = "01b977bc-34b4-729f-9d87-c0df30147718", "", goldenTrace
	for name, want := range map[string]envelope.Message{
		"cloudevent_schedule_timer.json": {
			ID: schedule.CommandID, Type: "ScheduleTimer", TenantID: "acme", AggregateID: "order:42.pay", TimestampMS: 1893456000000,
			CorrelationID: "req-7f3a", CausationID: "cause-1", Payload: schedule,
		},
		"cloudevent_cancel_timer.json": {
			ID: cancel.CommandID, Type: "CancelTimer", TenantID: "acme", TimestampMS: 1893456000001, Payload: cancel,
		},
		"cloudevent_due_time_reached.json": {
			ID: reached.ID, Type: "DueTimeReached", TenantID: "acme", AggregateID: "order:42.pay", TimestampMS: 1896089400507,
			CorrelationID: "req-7f3a", Payload: reached,
		},
	} {
		got, err := envelope.Decode(golden(t, name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if got := envelope.TenantOf(golden(t, name)); got != "acme" {
			t.Errorf("%s: TenantOf returns %s", name, got)
		}
	}
}

// A variant is a golden CloudEvent in which a piece is replaced.
type variant struct{ name, piece, with string }

func TestDecodeAcceptsCloudEvents(t *testing.T) {
	t.Parallel()
	const (
		tenant = `"tenantid":"acme",`
		kind   = `"datacontenttype":"application/json",`
		corr   = `"correlationid":"req-7f3a",`
	)
	want, err := envelope.Decode(golden(t, "cloudevent_schedule_timer.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []variant{
		{"no tenantid", tenant, ``},
		{"null tenantid", tenant, `"tenantid":null,`},
		{"no content type", kind, ``},
		{"null content type", kind, `"datacontenttype":null,`},
		{"content type with a parameter", kind, `"datacontenttype":"Application/JSON; charset=UTF-8",`},
		{"content type of JSON by its suffix", kind, `"datacontenttype":"application/vnd.acme.timer+json",`},
		{"null data_base64", kind, `"data_base64":null,`},
		{"specversion last", `"specversion":"1.0",`, `"dataschema":"https://example.com/a",`},
		{"attributes of others", corr, corr + `"partitionkey":"x","sequence":7,"flag":true,"schemaurl":null,`},
		{"keys of an envelope, which are ignored", corr, corr + `"payload":{"tenantId":"evil"},"aggregateId":"evil","timestampMs":1,"correlationId":"evil",`},
		{"a source of one letter", `"/orders"`, `"a"`},
		{"an absolute source", `"/orders"`, `"https://user@[::1]:8080/a%20b?c=d#e"`},
		{"a mail address as source", `"/orders"`, `"mailto:cncf-wg-serverless@lists.cncf.io"`},
		{"more in data", `"dueAt"`, `"note":[{"a":null}],"reachedAt":7,"dueAt"`},
		{"lower case in the time", `"2030-01-01T00:00:00Z"`, `"2030-01-01t00:00:00.000999z"`},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			body := edit(t, "cloudevent_schedule_timer.json", v.piece, v.with)
			if v.name == "specversion last" {
				body = append(body[:len(body)-1], `,"specversion":"1.0"}`...)
			}
			got, err := envelope.Decode(body)
			if err != nil {
				t.Fatalf("%v, in %s", err, body)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeOfNullAttributes(t *testing.T) {
	t.Parallel()
	body := golden(t, "cloudevent_schedule_timer.json")
	for _, attribute := range []string{`"subject":"order:42.pay"`, `"correlationid":"req-7f3a"`, `"causationid":"cause-1"`, `"tracestate":"vendor=1"`, `"traceparent":"` + parent + `"`} {
		name, _, _ := strings.Cut(attribute, ":")
		body = bytes.Replace(body, []byte(attribute), []byte(name+":null"), 1)
	}
	m, err := envelope.Decode(body)
	if err != nil {
		t.Fatal(err)
	}
	if m.AggregateID+m.CorrelationID+m.CausationID != "" || m.Payload.(timer.ScheduleTimer).Trace != (timer.Trace{}) {
		t.Errorf("got %+v", m)
	}
}

func TestTraceOfACloudEventCountsIfValid(t *testing.T) {
	t.Parallel()
	const whole = `"traceparent":"` + parent + `","tracestate":"vendor=1"`
	for with, want := range map[string]timer.Trace{
		`"tracestate":"vendor=1"`:                                                        {},
		`"traceparent":"` + parent + `"`:                                                 {Parent: parent},
		`"traceparent":"00-x","tracestate":"vendor=1"`:                                   {},
		`"traceparent":7,"tracestate":"vendor=1"`:                                        {},
		`"traceparent":"` + parent + `","tracestate":["vendor=1"]`:                       {Parent: parent},
		`"traceparent":"` + parent + `","tracestate":" \u0061=1 "`:                       {Parent: parent, State: "a=1"},
		`"traceparent":"` + parent + `","tracestate":"a=\r\nNats-Rollup: all"`:           {Parent: parent},
		`"Traceparent":"` + parent + `"`:                                                 {},
		`"traceparent":"` + parent + `","tracestate":"` + strings.Repeat("a", 513) + `"`: {Parent: parent},
	} {
		m, err := envelope.Decode(edit(t, "cloudevent_schedule_timer.json", whole, with))
		if err != nil {
			t.Errorf("%s: %v", with, err)
			continue
		}
		if got := m.Payload.(timer.ScheduleTimer).Trace; got != want {
			t.Errorf("%s: got %+v, want %+v", with, got, want)
		}
	}
}

func TestDecodeRefusesCloudEvents(t *testing.T) {
	t.Parallel()
	const (
		version = `"specversion":"1.0"`
		source  = `"source":"/orders"`
		time    = `"time":"2030-01-01T00:00:00Z"`
		tenant  = `"tenantid":"acme"`
		subject = `"subject":"order:42.pay"`
		kind    = `"datacontenttype":"application/json"`
		inner   = `"data":{"tenantId":"acme",`
	)
	for _, test := range []refused{
		{"older version", version, `"specversion":"0.3"`, timer.ReasonBadField, `specversion "0.3" is not supported`},
		{"newer version", version, `"specversion":"1.0.2"`, timer.ReasonBadField, "send CloudEvents 1.0"},
		{"number as version", version, `"specversion":1.0`, timer.ReasonBadField, "specversion is a number"},
		{"null version", version, `"specversion":null`, timer.ReasonMissingField, "specversion is null"},
		{"two versions", version, version + `,` + version, timer.ReasonDuplicateKey, `"specversion"`},
		{"tenant of an envelope", version, version + `,"tenantId":"acme"`, timer.ReasonBadField, "tenantId is given beside specversion"},
		{"null tenant of an envelope", version, version + `,"tenantId":null`, timer.ReasonBadField, "tenantId is given beside specversion"},
		{"no source", source, `"sourc":"/orders"`, timer.ReasonMissingField, "source is missing"},
		{"null source", source, `"source":null`, timer.ReasonMissingField, "source is null"},
		{"empty source", source, `"source":""`, timer.ReasonMissingField, "source is empty"},
		{"number as source", source, `"source":7`, timer.ReasonBadField, "source is a number"},
		{"space in source", source, `"source":"/my orders"`, timer.ReasonBadField, `source "/my orders" is not a URI-reference`},
		{"broken escape in source", source, `"source":"/a%2"`, timer.ReasonBadField, "URI-reference"},
		{"source not ASCII", source, `"source":"/\u00e9"`, timer.ReasonBadField, `"/\u00e9"`},
		{"line break in source", source, `"source":"/\r\n"`, timer.ReasonBadField, "URI-reference"},
		{"no time", time, `"tim":1`, timer.ReasonMissingField, "time is missing"},
		{"null time", time, `"time":null`, timer.ReasonMissingField, "time is null"},
		{"number as time", time, `"time":1893456000000`, timer.ReasonBadField, "time is a number"},
		{"time without zone", time, `"time":"2030-01-01T00:00:00"`, timer.ReasonBadTime, "has no zone"},
		{"time before 2000", time, `"time":"1999-12-31T23:59:59.9999Z"`, timer.ReasonBadTime, "2000 to 2200"},
		{"leap second", time, `"time":"2030-06-30T23:59:60Z"`, timer.ReasonBadTime, "leap second"},
		{"another tenantid", tenant, `"tenantid":"evil"`, timer.ReasonTenantMismatch, `data.tenantId "acme" is not tenantid "evil"`},
		{"empty tenantid", tenant, `"tenantid":""`, timer.ReasonMissingField, "tenantId is empty"},
		{"number as tenantid", tenant, `"tenantid":1`, timer.ReasonBadField, "tenantid is a number"},
		{"no tenant at all", tenant + `,"correlationid":"req-7f3a","causationid":"cause-1","traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","tracestate":"vendor=1",` + inner, `"data":{`, timer.ReasonMissingField, "data.tenantId is missing"},
		{"no tenant in data", inner, `"data":{`, timer.ReasonMissingField, "data.tenantId is missing"},
		{"subject of another call", subject, `"subject":"order:43.pay"`, timer.ReasonKeyMismatch, `subject "order:43.pay" is not data.serviceCallId "order:42.pay"`},
		{"empty subject", subject, `"subject":""`, timer.ReasonKeyMismatch, "subject"},
		{"number as subject", subject, `"subject":42`, timer.ReasonBadField, "subject is a number"},
		{"content type that is no JSON", kind, `"datacontenttype":"text/plain"`, timer.ReasonBadField, `datacontenttype "text/plain" is not JSON`},
		{"content type that is none", kind, `"datacontenttype":"json"`, timer.ReasonBadField, "datacontenttype"},
		{"empty content type", kind, `"datacontenttype":""`, timer.ReasonBadField, "datacontenttype"},
		{"number as content type", kind, `"datacontenttype":1`, timer.ReasonBadField, "datacontenttype is a number"},
		{"data in base64, too", kind, `"data_base64":"e30="`, timer.ReasonBadField, "send the JSON object itself as data"},
		{"no data", `"data":{`, `"payload":{`, timer.ReasonMissingField, "data is missing"},
		{"null data", `"data":{`, `"data":null,"payload":{`, timer.ReasonMissingField, "data is null; it must be an object"},
		{"string as data", `"data":{`, `"data":"{}","payload":{`, timer.ReasonBadField, "data is a string"},
		{"two data", `"data":{`, `"data":{},"data":{`, timer.ReasonDuplicateKey, `"data"`},
		{"duplicate key in data", inner, inner + `"tenantId":"acme",`, timer.ReasonDuplicateKey, `"tenantId"`},
		{"no due time", `"dueAt"`, `"DueAt"`, timer.ReasonMissingField, "data.dueAt is missing"},
		{"slash in call", `"serviceCallId":"order:42.pay"`, `"serviceCallId":"a/b"`, timer.ReasonBadField, `serviceCallId "a/b"`},
		{"no call", `"serviceCallId"`, `"call"`, timer.ReasonMissingField, "data.serviceCallId is missing"},
		{"no id", `"id"`, `"ID"`, timer.ReasonMissingField, "id is missing"},
		{"space in id", `"id":"0190`, `"id":" 0190`, timer.ReasonBadField, "id"},
		{"no type", `"type"`, `"Type"`, timer.ReasonMissingField, "type is missing"},
		{"long correlation id", `"req-7f3a"`, `"` + strings.Repeat("c", 129) + `"`, timer.ReasonBadField, "correlationid is longer"},
		{"number as causation id", `"cause-1"`, `1`, timer.ReasonBadField, "causationid is a number"},
		{"too deep", inner, inner + `"x":` + strings.Repeat("[", 15) + strings.Repeat("]", 15) + `,`, timer.ReasonTooDeep, "16"},
		{"too large", inner, inner + `"x":"` + strings.Repeat("x", 65_536) + `",`, timer.ReasonTooLarge, "65536"},
		{"not UTF-8", inner, inner + "\"x\":\"\xff\",", timer.ReasonNotUTF8, "UTF-8"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.check(t, "cloudevent_schedule_timer.json")
		})
	}
	for _, test := range []refused{
		{"event without a subject", `"subject":"order:42.pay"`, `"subject":null`, timer.ReasonMissingField, "subject is missing"},
		{"event without a time of reaching", `"reachedAt"`, `"reached"`, timer.ReasonMissingField, "data.reachedAt is missing"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.check(t, "cloudevent_due_time_reached.json")
		})
	}
}

// Teams may share a topic, and use other types and versions.
func TestCloudEventsOfOtherTypesAreNoErrors(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]envelope.Message{
		`{"specversion":"1.0","id":"1","type":"com.example.placed","source":"/orders","tenantid":"acme"}`:              {ID: "1", Type: "com.example.placed", TenantID: "acme"},
		`{"specversion":"1.0","id":"1","type":"com.example.placed","data":{"tenantId":"acme"}}`:                        {ID: "1", Type: "com.example.placed", TenantID: "acme"},
		`{"specversion":"0.3","id":7,"type":"x","tenantid":null,"tenantId":"evil","data":7,"data_base64":"","time":1}`: {Type: "x"},
		`{"specversion":null,"type":"x","tenantid":"_","data":{"tenantId":"acme"}}`:                                    {Type: "x"},
	} {
		got, err := envelope.Decode([]byte(body))
		if err != nil {
			t.Errorf("%s: %v", body, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", body, diff)
		}
	}
}
