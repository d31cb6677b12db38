package envelope_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestHeadersRepeatTheBodyAndCarryTheTrace(t *testing.T) {
	t.Parallel()
	e := goldenReached
	e.Trace = timer.Trace{Parent: parent, State: "vendor=1"}
	want := map[string]string{
		"type":          "DueTimeReached",
		"tenantId":      "acme",
		"serviceCallId": "order:42.pay",
		"messageId":     "01b977bc-34b4-729f-9d87-c0df30147718",
		"correlationId": "req-7f3a",
		"traceparent":   parent,
		"tracestate":    "vendor=1",
	}
	if diff := cmp.Diff(want, envelope.HeadersOf(e)); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}

	c := goldenSchedule
	c.Trace = e.Trace
	want["type"], want["messageId"] = "ScheduleTimer", c.CommandID
	if diff := cmp.Diff(want, envelope.ScheduleHeaders(c)); diff != "" {
		t.Errorf("ScheduleTimer (-want +got):\n%s", diff)
	}
}

func TestHeadersLeaveOutWhatIsEmpty(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"type":          "CancelTimer",
		"tenantId":      "acme",
		"serviceCallId": "order:42.pay",
		"messageId":     goldenCancel.CommandID,
	}
	if diff := cmp.Diff(want, envelope.CancelHeaders(goldenCancel)); diff != "" {
		t.Errorf("CancelTimer (-want +got):\n%s", diff)
	}
	e := goldenReached
	e.Trace.State = "vendor=1" // has no meaning without a parent
	if h := envelope.HeadersOf(e); h["tracestate"] != "" {
		t.Errorf("tracestate without traceparent: %v", h)
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
		{"state of spaces", parent, "   ", timer.Trace{Parent: parent}},
		{"upper case", strings.ToUpper(parent), "", timer.Trace{}},
		{"another version", "01" + parent[2:], "", timer.Trace{}},
		{"forbidden version", "ff" + parent[2:], "", timer.Trace{}},
		{"too long", parent + "-00", "", timer.Trace{}},
		{"flags too long", parent + "0", "", timer.Trace{}},
		{"too short", parent[:54], "", timer.Trace{}},
		{"no hexadecimal trace id", "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01", "", timer.Trace{}},
		{"no hexadecimal span id", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b\n-01", "", timer.Trace{}},
		{"no hexadecimal flags", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x", "", timer.Trace{}},
		{"zero trace id", "00-00000000000000000000000000000000-00f067aa0ba902b7-01", "", timer.Trace{}},
		{"zero span id", "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", "", timer.Trace{}},
		{"wrong dashes", "00_4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7_01", "", timer.Trace{}},
		{"second dash", "00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01", "", timer.Trace{}},
		{"third dash", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7_01", "", timer.Trace{}},
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
