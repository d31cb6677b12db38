package envelope_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// TestCloudEventsOfEvents name the source that is configured, and leave out empty attributes.
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
