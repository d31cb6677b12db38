package interop_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding/format"
	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// Values of every kind that a valid message may hold. With them the official Go SDK for
// CloudEvents reads our events, and our decoder the commands of the SDK.
var (
	tenants  = rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9_-]{0,63}`)
	calls    = rapid.StringMatching(`[A-Za-z0-9_:-][A-Za-z0-9_.:-]{0,127}`)
	ids      = rapid.StringMatching(`[!-~]{1,128}`)
	states   = rapid.StringMatching(`([!-~]([ -~]{0,300}[!-~])?)?`)
	parents  = rapid.StringMatching(`00-[0-9a-f]{31}[1-9a-f]-[0-9a-f]{15}[1-9a-f]-[0-9a-f]{2}`)
	instants = rapid.Custom(func(t *rapid.T) time.Time {
		first, last := time.Date(2000, 1, 2, 0, 0, 0, 0, time.UTC), time.Date(2200, 12, 30, 0, 0, 0, 0, time.UTC)
		seconds := rapid.Int64Range(first.Unix(), last.Unix()).Draw(t, "seconds")
		return time.Unix(seconds, rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds")).UTC()
	})
	zones = rapid.Custom(func(t *rapid.T) *time.Location {
		return time.FixedZone("", 60*rapid.IntRange(-14*60, 14*60).Draw(t, "minutes"))
	})
	sources = rapid.SampledFrom([]string{
		"/timer-service", "a", "urn:example:timers", "https://timers.example.com/eu?a=b&c=%20#d", "//host/path", "mailto:timers@example.com", "?q", "a/b:c",
		"https://[::1]:8080/", "/a%2Fb", "/(a)'*+,;=!$@", "1-555-123-4567", "../up",
	})
)

// maybe returns a value, or "".
func maybe(t *rapid.T, g *rapid.Generator[string], label string) string {
	if rapid.Bool().Draw(t, "with "+label) {
		return g.Draw(t, label)
	}
	return ""
}

func trace(t *rapid.T) timer.Trace {
	trace := timer.Trace{Parent: maybe(t, parents, "traceparent")}
	if trace.Parent != "" {
		trace.State = maybe(t, states, "tracestate")
	}
	return trace
}

func reached(t *rapid.T) timer.DueTimeReached {
	due := instants.Draw(t, "due")
	return timer.DueTimeReached{
		Key:       timer.Key{TenantID: timer.TenantID(tenants.Draw(t, "tenant")), ServiceCallID: timer.ServiceCallID(calls.Draw(t, "call"))},
		CommandID: ids.Draw(t, "command"), DueAt: due, ReachedAt: due.Add(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "late"))),
		CorrelationID: maybe(t, ids, "correlation"), Trace: trace(t),
	}
}

// extensions returns those that are not empty, as the SDK has them.
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
	rapid.Check(t, func(t *rapid.T) {
		e := reached(t)
		f := envelope.Format{CloudEvents: true, Source: sources.Draw(t, "source")}
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
		want := []any{"1.0", envelope.EventID(e), f.Source, "DueTimeReached", string(e.ServiceCallID), "application/json", "", true}
		if diff := cmp.Diff(want, said); diff != "" {
			t.Fatalf("attributes (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(extensions(e.TenantID, e.CorrelationID, e.Trace), got.Extensions()); diff != "" {
			t.Fatalf("extensions (-want +got):\n%s", diff)
		}
		var data map[string]string
		if err := got.DataAs(&data); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string{
			"tenantId": string(e.TenantID), "serviceCallId": string(e.ServiceCallID),
			"dueAt": envelope.FormatTime(timer.RoundUp(e.DueAt)), "reachedAt": envelope.FormatTime(e.ReachedAt),
		}, data); diff != "" {
			t.Fatalf("data (-want +got):\n%s", diff)
		}
		passedOn(t, got, body)
	})
}

// passedOn checks that an event which was read and written again with the SDK
// says the same.
func passedOn(t *rapid.T, e event.Event, body []byte) {
	t.Helper()
	want, err := envelope.Decode(body)
	if err != nil {
		t.Fatalf("%v, in our own %s", err, body)
	}
	again, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	got, err := envelope.Decode(again)
	if err != nil {
		t.Fatalf("%v, in %s", err, again)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("passed on by the SDK (-before +after):\n%s", diff)
	}
}

// payload is the data of a command, as a producer may have it.
type payload struct {
	TenantID      timer.TenantID      `json:"tenantId"`
	ServiceCallID timer.ServiceCallID `json:"serviceCallId"`
	DueAt         *time.Time          `json:"dueAt,omitempty"`
}

// setData has the SDK encode data in one of the ways that are in use.
func setData(t *rapid.T, e *event.Event, p payload) {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		t.Fatal(err)
	}
	data := rapid.SampledFrom([]any{p, &p, object, json.RawMessage(text)}).Draw(t, "data")
	if err := e.SetData(rapid.SampledFrom([]string{"application/json", "text/json"}).Draw(t, "content type"), data); err != nil {
		t.Fatal(err)
	}
}

func TestDecoderReadsCommandsOfTheSDK(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at, due := instants.Draw(t, "time"), instants.Draw(t, "due").In(zones.Draw(t, "zone of due"))
		command := timer.ScheduleTimer{
			Key:     timer.Key{TenantID: timer.TenantID(tenants.Draw(t, "tenant")), ServiceCallID: timer.ServiceCallID(calls.Draw(t, "call"))},
			Version: timer.Version{TimestampMS: at.UnixMilli(), CommandID: ids.Draw(t, "id")},
			DueAt:   timer.RoundUp(due.UTC()), CorrelationID: maybe(t, ids, "correlation"), Trace: trace(t),
		}
		e := event.New()
		e.SetID(command.CommandID)
		e.SetSource(sources.Draw(t, "source"))
		e.SetTime(at.In(zones.Draw(t, "zone")))
		withSubject := rapid.Bool().Draw(t, "with subject")
		if withSubject {
			e.SetSubject(string(command.ServiceCallID))
		}
		tenant := command.TenantID
		if rapid.Bool().Draw(t, "without tenantid") {
			tenant = ""
		}
		for name, value := range extensions(tenant, command.CorrelationID, command.Trace) {
			e.SetExtension(name, value)
		}
		e.SetExtension("sequence", rapid.Int32().Draw(t, "extension of others"))
		want := any(command)
		p := payload{TenantID: command.TenantID, ServiceCallID: command.ServiceCallID, DueAt: &due}
		e.SetType("ScheduleTimer")
		if rapid.Bool().Draw(t, "cancel") {
			e.SetType("CancelTimer")
			p.DueAt = nil
			want = timer.CancelTimer{Key: command.Key, Version: command.Version, CorrelationID: command.CorrelationID, Trace: command.Trace}
		}
		setData(t, &e, p)
		if err := e.Validate(); err != nil {
			t.Fatalf("the SDK finds its own event invalid: %v", err)
		}
		body, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		m, err := envelope.Decode(body)
		if err != nil {
			t.Fatalf("%v, in %s", err, body)
		}
		if diff := cmp.Diff(want, m.Payload); diff != "" {
			t.Fatalf("(-want +got):\n%s\nin %s", diff, body)
		}
		if (m.AggregateID != "") != withSubject || envelope.TenantOf(body) != command.TenantID {
			t.Fatalf("got %+v, tenant %s, of %s", m, envelope.TenantOf(body), body)
		}
	})
}

// The docs say so, and what to do instead.
func TestBytesAsDataAreRefused(t *testing.T) {
	t.Parallel()
	e := event.New()
	e.SetID("1")
	e.SetSource("/a")
	e.SetType("CancelTimer")
	e.SetTime(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	const data = `{"tenantId":"acme","serviceCallId":"c"}`
	if err := e.SetData("application/json", []byte(data)); err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	_, err = envelope.Decode(body)
	invalid, ok := errors.AsType[*timer.InvalidError](err)
	if !ok || invalid.Reason != timer.ReasonBadField || !strings.Contains(invalid.Detail, "data_base64") {
		t.Errorf("%v, want a refusal of data_base64 in %s", err, body)
	}
	if err := e.SetData("application/json", json.RawMessage(data)); err != nil {
		t.Fatal(err)
	}
	if body, err = json.Marshal(e); err != nil {
		t.Fatal(err)
	}
	if _, err := envelope.Decode(body); err != nil {
		t.Errorf("%v, in %s", err, body)
	}
}
