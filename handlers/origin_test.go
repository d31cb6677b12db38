package handlers_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

func TestOnlyCorrelationAndTraceCrossOver(t *testing.T) {
	t.Parallel()
	d := newHarness()
	d.run(t, routing)
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	d.deliver(string(envelope.Schedule(command)), "correlationId", "from-header", "traceparent", parent, "tracestate", "a=b",
		"tenantId", "evil", "Nats-Rollup", "all")
	taken := timer.CancelTimer{Key: command.Key, Version: timer.Version{TimestampMS: noon.UnixMilli(), CommandID: "c-2"}}
	d.deliver(string(envelope.Cancel(taken)), "correlationId", "from-header")
	inBody := command
	inBody.CorrelationID = "from-body"
	d.deliver(string(envelope.Schedule(inBody)), "correlationId", "from-header")

	first := command
	first.CorrelationID, first.Trace = "from-header", timer.Trace{Parent: parent, State: "a=b"}
	taken.CorrelationID = "from-header"
	if diff := cmp.Diff([]any{first, taken, inBody}, d.applied); diff != "" {
		t.Errorf("applied (-want +got):\n%s", diff)
	}
}

// A CloudEvent may carry all of it in its body.
func TestBodyWinsOverHeaders(t *testing.T) {
	t.Parallel()
	const (
		inBody   = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		inHeader = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	)
	d := newHarness()
	d.run(t, routing)
	event := func(more string) string {
		return `{"specversion":"1.0","id":"c-1","source":"/a","type":"ScheduleTimer","time":"2026-01-01T00:00:00Z"` + more +
			`,"data":{"tenantId":"acme","serviceCallId":"order-1","dueAt":"2026-01-01T13:00:00Z"}}`
	}
	for _, body := range []string{
		`,"correlationid":"from-body","traceparent":"` + inBody + `","tracestate":"b=1"`,
		`,"correlationid":"from-body","traceparent":"` + inBody + `"`, // the state of another trace says nothing of this one
		`,"traceparent":"malformed","tracestate":"b=1"`,
		``,
	} {
		d.deliver(event(body), "correlationId", "from-header", "traceparent", inHeader, "tracestate", "h=1", "content-type", "text/plain", "ce_type", "CancelTimer")
	}
	want := func(correlation, parent, state string) timer.ScheduleTimer {
		c := command
		c.TimestampMS = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
		c.CorrelationID, c.Trace = correlation, timer.Trace{Parent: parent, State: state}
		return c
	}
	if diff := cmp.Diff([]any{
		want("from-body", inBody, "b=1"), want("from-body", inBody, ""),
		want("from-header", inHeader, "h=1"), want("from-header", inHeader, "h=1"),
	}, d.applied); diff != "" {
		t.Errorf("applied (-want +got):\n%s", diff)
	}
}
