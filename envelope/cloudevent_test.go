package envelope_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// TestCloudEventsOfEvents name the source that is configured, and leave out what is empty.
func TestCloudEventsOfEvents(t *testing.T) {
	t.Parallel()
	elsewhere := envelope.Format{CloudEvents: true, Source: "https://timers.example.com/eu?a=b&c"}
	whole, bare := goldenReached, goldenReached
	whole.Trace = goldenTrace
	bare.CorrelationID = ""
	bare.Trace.State = "vendor=1" // has no meaning without a parent
	for got, replaced := range map[string][]string{
		string(elsewhere.Reached(whole)):  {`"/timer-service"`, `"https://timers.example.com/eu?a=b&c"`},
		string(cloudEvents.Reached(bare)): {`"correlationid":"req-7f3a",`, "", `"traceparent":"` + parent + `","tracestate":"vendor=1",`, ""},
	} {
		if want := strings.NewReplacer(replaced...).Replace(string(golden(t, "cloudevent_due_time_reached.json"))); got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
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
	refuse(t, "cloudevent_schedule_timer.json", []refused{
		{"older version", version, `"specversion":"0.3"`, timer.ReasonBadField, `specversion "0.3" is not supported`},
		{"newer version", version, `"specversion":"1.0.2"`, timer.ReasonBadField, "send CloudEvents 1.0"},
		{"null version", version, `"specversion":null`, timer.ReasonMissingField, "specversion is null"},
		{"tenant of an envelope", version, version + `,"tenantId":"acme"`, timer.ReasonBadField, "tenantId is given beside specversion"},
		{"no source", source, `"sourc":"/orders"`, timer.ReasonMissingField, "source is missing"},
		{"empty source", source, `"source":""`, timer.ReasonMissingField, "source is empty"},
		{"space in source", source, `"source":"/my orders"`, timer.ReasonBadField, `source "/my orders" is not a URI-reference`},
		{"source not ASCII", source, `"source":"/\u00e9"`, timer.ReasonBadField, `"/\u00e9"`},
		{"no time", time, `"tim":1`, timer.ReasonMissingField, "time is missing"},
		{"time without zone", time, `"time":"2030-01-01T00:00:00"`, timer.ReasonBadTime, "has no zone"},
		{"another tenantid", tenant, `"tenantid":"evil"`, timer.ReasonTenantMismatch, `data.tenantId "acme" is not tenantid "evil"`},
		{"number as tenantid", tenant, `"tenantid":1`, timer.ReasonBadField, "tenantid is a number"},
		{"no tenant at all", tenant + `,"correlationid":"req-7f3a","causationid":"cause-1","traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","tracestate":"vendor=1",` + inner, `"data":{`, timer.ReasonMissingField, "data.tenantId is missing"},
		{"subject of another call", subject, `"subject":"order:43.pay"`, timer.ReasonKeyMismatch, `subject "order:43.pay" is not data.serviceCallId "order:42.pay"`},
		{"content type that is no JSON", kind, `"datacontenttype":"text/plain"`, timer.ReasonBadField, `datacontenttype "text/plain" is not JSON`},
		{"empty content type", kind, `"datacontenttype":""`, timer.ReasonBadField, "datacontenttype"},
		{"data in base64, too", kind, `"data_base64":"e30="`, timer.ReasonBadField, "send the JSON object itself as data"},
		{"no data", `"data":{`, `"payload":{`, timer.ReasonMissingField, "data is missing"},
		{"no due time", `"dueAt"`, `"DueAt"`, timer.ReasonMissingField, "data.dueAt is missing"},
	})
	refuse(t, "cloudevent_due_time_reached.json", []refused{
		{"event without a subject", `"subject":"order:42.pay"`, `"subject":null`, timer.ReasonMissingField, "subject is missing"},
		{"event without a time of reaching", `"reachedAt"`, `"reached"`, timer.ReasonMissingField, "data.reachedAt is missing"},
	})
}
