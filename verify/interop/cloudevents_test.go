package interop_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding/format"
	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
	"github.com/event-service-agent/timer-service/verify/internal/harness"
)

// Messages with all that a CloudEvent may hold, and with nothing more than it must. The
// official Go SDK for CloudEvents reads our events, and our decoder the commands of the SDK.
var (
	evening = time.Date(2030, 1, 31, 23, 59, 59, 999_500_000, time.UTC)
	trace   = timer.Trace{Parent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", State: "a=b,c=d e"}

	reachedEvents = map[string]timer.DueTimeReached{
		"/timer-service": {
			Key: timer.Key{TenantID: "acme", ServiceCallID: "order-1"}, CommandID: "c-1", DueAt: evening, ReachedAt: evening.Add(time.Second),
		},
		"https://[::1]:8080/a%2Fb?c=%20#d": {
			Key: timer.Key{TenantID: "x_-", ServiceCallID: "Order:1.a_b-"}, CommandID: `!"#$%&'()*+,-./:;<=>?@[\]^_{|}~`, DueAt: evening, ReachedAt: evening,
			CorrelationID: `<"req\7">`, Trace: trace,
		},
	}
)

// extensions returns the extensions of a message that are not empty, as the SDK has them.
func extensions(tenant timer.TenantID, correlation string, trace timer.Trace) map[string]any {
	all := make(map[string]any)
	for name, value := range map[string]string{
		"tenantid": string(tenant), "correlationid": correlation, "traceparent": trace.Parent, "tracestate": trace.State,
	} {
		if value != "" {
			all[name] = value
		}
	}
	return all
}

func TestSDKReadsOurEvents(t *testing.T) {
	t.Parallel()
	for source, e := range reachedEvents {
		f := envelope.Format{CloudEvents: true, Source: source}
		body := f.Reached(e)
		codec := format.Lookup(f.HeadersOf(e)[envelope.HeaderContentType])
		if codec == nil {
			t.Fatal("the SDK knows no format of our content type")
		}
		var got event.Event
		if err := codec.Unmarshal(body, &got); err != nil {
			t.Fatalf("%v, in %s", err, body)
		}
		if err := got.Validate(); err != nil {
			t.Fatalf("%v, in %s", err, body)
		}
		said := []any{got.SpecVersion(), got.ID(), got.Source(), got.Type(), got.Subject(), got.DataContentType(), got.DataSchema(), got.Time().Equal(timer.RoundDown(e.ReachedAt))}
		want := []any{"1.0", envelope.EventID(e), source, "DueTimeReached", string(e.ServiceCallID), "application/json", "", true}
		if diff := cmp.Diff(want, said); diff != "" {
			t.Errorf("attributes (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(extensions(e.TenantID, e.CorrelationID, e.Trace), got.Extensions()); diff != "" {
			t.Errorf("extensions (-want +got):\n%s", diff)
		}
		// An event which was read and written again with the SDK says the same.
		again, err := json.Marshal(got)
		harness.Must(t, err)
		before, err := envelope.Decode(body)
		harness.Must(t, err)
		after, err := envelope.Decode(again)
		if err != nil {
			t.Fatalf("%v, in %s", err, again)
		}
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("passed on by the SDK (-before +after):\n%s", diff)
		}
	}
}

// payload is the data of a command, as a producer may have it.
type payload struct {
	TenantID      timer.TenantID      `json:"tenantId"`
	ServiceCallID timer.ServiceCallID `json:"serviceCallId"`
	DueAt         time.Time           `json:"dueAt"`
}

func TestDecoderReadsCommandsOfTheSDK(t *testing.T) {
	t.Parallel()
	due := evening.In(time.FixedZone("", -14*60*60))
	command := timer.ScheduleTimer{
		Key: timer.Key{TenantID: "acme", ServiceCallID: "order-1"}, Version: timer.Version{TimestampMS: evening.UnixMilli(), CommandID: "c-1"},
		DueAt: timer.RoundUp(evening),
	}
	full := command
	full.CorrelationID, full.Trace = "req-7", trace
	p := payload{command.TenantID, command.ServiceCallID, due}
	text, err := json.Marshal(p)
	harness.Must(t, err)
	for name, test := range map[string]struct {
		change func(*event.Event)
		data   any
		want   timer.ScheduleTimer
	}{
		"as little as there may be": {func(*event.Event) {}, p, command},
		"JSON, of another content type": {func(e *event.Event) {
			e.SetDataContentType("text/json")
			e.SetSubject(string(command.ServiceCallID))
			e.SetExtension("sequence", int32(7))
		}, json.RawMessage(text), command},
		"an object, with all extensions": {func(e *event.Event) {
			for name, value := range extensions(full.TenantID, full.CorrelationID, full.Trace) {
				e.SetExtension(name, value)
			}
		}, map[string]any{"tenantId": "acme", "serviceCallId": "order-1", "dueAt": due, "note": nil}, full},
	} {
		e := event.New()
		e.SetID(command.CommandID)
		e.SetSource("//host/path")
		e.SetType("ScheduleTimer")
		e.SetTime(evening.In(time.FixedZone("", 5*60*60)))
		e.SetDataContentType(event.ApplicationJSON)
		test.change(&e)
		harness.Must(t, e.SetData(e.DataContentType(), test.data))
		if err := e.Validate(); err != nil {
			t.Fatalf("%s: the SDK finds its own event invalid: %v", name, err)
		}
		body, err := json.Marshal(e)
		harness.Must(t, err)
		m, err := envelope.Decode(body)
		if err != nil {
			t.Fatalf("%s: %v, in %s", name, err, body)
		}
		if diff := cmp.Diff(any(test.want), m.Payload); diff != "" {
			t.Errorf("%s (-want +got):\n%s\nin %s", name, diff, body)
		}
	}
}
