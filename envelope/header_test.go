package envelope_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

const (
	parent  = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	eventID = "01b977bc-34b4-729f-9d87-c0df30147718" // of goldenReached
)

// TestHeaders has the headers of each message, which repeat the body and carry the trace. They
// leave out empty values, and come back when they are encoded as JSON, which the standard
// library reads in the same way.
func TestHeaders(t *testing.T) {
	t.Parallel()
	command, event, bare, odd, stateOnly := goldenSchedule, goldenReached, goldenReached, goldenReached, goldenReached
	command.Trace, event.Trace = goldenTrace, goldenTrace
	bare.CorrelationID = ""
	odd.CorrelationID, odd.Trace = "\u00e9\u2028", timer.Trace{Parent: parent, State: `vendor=a"b\c`}
	stateOnly.Trace.State = "vendor=1" // which has no meaning without a parent
	const call = "order:42.pay"
	for name, c := range map[string]struct {
		got                                        map[string]string
		kind, call, id, correlation, parent, state string
		contentType                                string
	}{
		"ScheduleTimer":               {envelope.CommandHeaders(command), "ScheduleTimer", call, command.CommandID, "req-7f3a", parent, "vendor=1", ""},
		"ScheduleTimers":              {envelope.CommandHeaders(goldenMany(goldenTrace)), "ScheduleTimers", "", command.CommandID, "req-7f3a", parent, "vendor=1", ""},
		"CancelTimer":                 {envelope.CommandHeaders(goldenCancel), "CancelTimer", call, goldenCancel.CommandID, "", "", "", ""},
		"CancelTimers":                {envelope.CommandHeaders(goldenCancelMany), "CancelTimers", "", goldenCancelMany.CommandID, "req-7f3a", "", "", ""},
		"RescheduleTimers":            {envelope.CommandHeaders(goldenRescheduleMany), "RescheduleTimers", "", goldenRescheduleMany.CommandID, "req-7f3a", "", "", ""},
		"event":                       {envelope.HeadersOf(event), "DueTimeReached", call, eventID, "req-7f3a", parent, "vendor=1", ""},
		"event in the format":         {envelope.Format{}.HeadersOf(event), "DueTimeReached", call, eventID, "req-7f3a", parent, "vendor=1", ""},
		"CloudEvent":                  {cloudEvents.HeadersOf(event), "DueTimeReached", call, eventID, "req-7f3a", parent, "vendor=1", "application/cloudevents+json"},
		"event of an expiry":          {envelope.HeadersOf(goldenExpired.Event()), "TimerExpired", call, eventID, "req-7f3a", "", "", ""},
		"event with a state only":     {envelope.HeadersOf(stateOnly), "DueTimeReached", call, eventID, "req-7f3a", "", "", ""},
		"event without a correlation": {envelope.HeadersOf(bare), "DueTimeReached", call, eventID, "", "", "", ""},
		"odd characters":              {envelope.HeadersOf(odd), "DueTimeReached", call, eventID, "\u00e9\u2028", parent, `vendor=a"b\c`, ""},
	} {
		want := map[string]string{
			"type": c.kind, "tenantId": "acme", "serviceCallId": c.call, "messageId": c.id, "correlationId": c.correlation,
			"traceparent": c.parent, "tracestate": c.state, "content-type": c.contentType,
		}
		maps.DeleteFunc(want, func(_, value string) bool { return value == "" })
		if diff := cmp.Diff(want, c.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		text := envelope.EncodeHeaders(c.got)
		var standard map[string]string
		if err := json.Unmarshal(text, &standard); err != nil || !maps.Equal(standard, want) {
			t.Errorf("%s by the standard library: %v, %v", name, standard, err)
		}
		if again, err := envelope.DecodeHeaders(string(text)); err != nil || !maps.Equal(again, want) {
			t.Errorf("%s decoded: %v, %v", name, again, err)
		}
	}
}

func TestTraceCrossesOverOnlyIfValid(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 512)
	tests := []struct {
		name, parent, state string
		want                timer.Trace
	}{
		{"both", parent, "a=1,b=2", timer.Trace{Parent: parent, State: "a=1,b=2"}},
		{"no state", parent, "", timer.Trace{Parent: parent}},
		{"nothing", "", "", timer.Trace{}},
		{"state alone", "", "a=1", timer.Trace{}},
		{"longest state", parent, long, timer.Trace{Parent: parent, State: long}},
		{"state too long", parent, long + "a", timer.Trace{Parent: parent}},
		{"state with a line break", parent, "a=1\r\nNats-Rollup: all", timer.Trace{Parent: parent}},
		{"state not ASCII", parent, "a=é", timer.Trace{Parent: parent}},
		{"state between spaces", parent, "  a=1 , b=2 ", timer.Trace{Parent: parent, State: "a=1 , b=2"}},
		{"upper case", strings.ToUpper(parent), "", timer.Trace{}},
		{"another version", "01" + parent[2:], "", timer.Trace{}},
		{"too long", parent + "-00", "", timer.Trace{}},
		{"too short", parent[:54], "", timer.Trace{}},
		{"no hexadecimal trace id", "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01", "", timer.Trace{}},
		{"no hexadecimal span id", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b\n-01", "", timer.Trace{}},
		{"no hexadecimal flags", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x", "", timer.Trace{}},
		{"zero trace id", "00-00000000000000000000000000000000-00f067aa0ba902b7-01", "", timer.Trace{}},
		{"zero span id", "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", "", timer.Trace{}},
		{"wrong dashes", "00_4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7_01", "", timer.Trace{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			header := map[string]string{"traceparent": test.parent, "tracestate": test.state}
			if got := envelope.TraceFrom(func(name string) string { return header[name] }); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestTraceIsFoundInTheCasesThatAreInUse(t *testing.T) {
	t.Parallel()
	const other = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	want := timer.Trace{Parent: parent, State: "a=1"}
	for name, header := range map[string]map[string]string{
		"as W3C asks to send them":  {"traceparent": parent, "tracestate": "a=1"},
		"as HTTP libraries do":      {"Traceparent": parent, "Tracestate": "a=1"},
		"in capitals":               {"TRACEPARENT": parent, "TRACESTATE": "a=1"},
		"mixed":                     {"Traceparent": parent, "tracestate": "a=1"},
		"several, ours goes before": {"traceparent": parent, "Traceparent": other, "TRACESTATE": "b=2", "Tracestate": "a=1"},
	} {
		if got := envelope.TraceFrom(func(name string) string { return header[name] }); got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	broken := map[string]string{"traceparent": "00-", "Traceparent": other} // the first one counts, even if it is not valid
	if got := envelope.TraceFrom(func(name string) string { return broken[name] }); got != (timer.Trace{}) {
		t.Errorf("got %+v, want none", got)
	}
}

func TestCorrelationCrossesOverOnlyIfValid(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("c", 128)
	for header, want := range map[string]string{
		"": "", "req-7f3a": "req-7f3a", "a b": "", "a\r\nb": "", "é": "", long: long, long + "c": "",
	} {
		got := envelope.CorrelationFrom(func(name string) string {
			if name != "correlationId" {
				t.Errorf("asks for %q", name)
			}
			return header
		})
		if got != want {
			t.Errorf("%q: got %q, want %q", header, got, want)
		}
	}
}

// TestHeadersOfAnyBytes has names that differ only in bytes which are not UTF-8, as Kafka, RabbitMQ and NATS
// carry them.
func TestHeadersOfAnyBytes(t *testing.T) {
	t.Parallel()
	text := envelope.EncodeHeaders(map[string]string{"a": "1", "x\xfe": "2", "x\xff": "3", "x\xff\xff": "4", "\xff": "\xff", "nul\x00": "\x00"})
	got, err := envelope.DecodeHeaders(string(text))
	want := map[string]string{"a": "1", "x\uFFFD": "2", "\uFFFD": "\uFFFD", "nul\x00": "\x00"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
