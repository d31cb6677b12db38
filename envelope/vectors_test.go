package envelope_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// A vector is a message, and what becomes of it. The README in the folder of the vectors has
// the format.
type vector struct {
	Name    string
	Body    vectorText
	Base64  []byte     // in place of Body, if that is not UTF-8
	Of      string     // in place of Body: a golden file, with a piece of it replaced
	Replace string     // the piece
	With    vectorText // in its place
	Reason  timer.Reason
	Detail  string         // a part of the detail
	As      map[string]any // the message as the service writes it; default that of the golden file
}

func (v vector) body(t testing.TB) []byte {
	t.Helper()
	if v.Of != "" {
		return edit(t, v.Of, v.Replace, string(v.With))
	}
	return append([]byte(v.Body), v.Base64...)
}

// A vectorText is in JSON a string, or a list of strings and of pairs of a string and how often it occurs.
type vectorText string

func (b *vectorText) UnmarshalJSON(text []byte) error {
	if text[0] == '"' {
		return json.Unmarshal(text, (*string)(b))
	}
	var parts []any
	if err := json.Unmarshal(text, &parts); err != nil {
		return err
	}
	for _, part := range parts {
		if pair, ok := part.([]any); ok {
			part = strings.Repeat(pair[0].(string), int(pair[1].(float64)))
		}
		*b += vectorText(part.(string))
	}
	return nil
}

// edit returns a golden message in which one piece is replaced.
func edit(t testing.TB, name, piece, with string) []byte {
	t.Helper()
	body := golden(t, name)
	if !bytes.Contains(body, []byte(piece)) {
		t.Fatalf("%s has no %s", name, piece)
	}
	return bytes.Replace(body, []byte(piece), []byte(with), 1)
}

// vectors returns those of a file.
func vectors[V any](t testing.TB, file string) (all []V) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("schema", "vectors", file))
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		d.DisallowUnknownFields()
		err = d.Decode(&all)
	}
	if err != nil || len(all) < 30 {
		t.Fatalf("%s has %d vectors, %v", file, len(all), err)
	}
	return all
}

func TestDecodeRefusesVectors(t *testing.T) {
	t.Parallel()
	for _, v := range vectors[vector](t, "refused.json") {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			m, err := envelope.Decode(v.body(t))
			invalid, ok := errors.AsType[*timer.InvalidError](err)
			if !ok || v.Reason == "" {
				t.Fatalf("decodes to %+v with error %v from %s", m, err, v.body(t))
			}
			if invalid.Reason != v.Reason || !strings.Contains(invalid.Detail, v.Detail) {
				t.Errorf("got %s: %s\nwant %s: …%s…", invalid.Reason, invalid.Detail, v.Reason, v.Detail)
			}
			if m != (envelope.Message{}) {
				t.Errorf("returns %+v with the error", m)
			}
			checkDecode(t, v.body(t))
		})
	}
}

// A body that is too large is not looked at.
func TestDecodeRefusesGarbageBySize(t *testing.T) {
	t.Parallel()
	_, err := envelope.Decode(bytes.Repeat([]byte{0xff}, 1<<20))
	if invalid, ok := errors.AsType[*timer.InvalidError](err); !ok || invalid.Reason != timer.ReasonTooLarge {
		t.Error(err)
	}
}

// checkDetail checks that a detail fits a header on every broker.
func checkDetail(t *testing.T, detail string) {
	t.Helper()
	if len(detail) > 400 {
		t.Errorf("detail has %d bytes: %s", len(detail), detail)
	}
	for i := range len(detail) {
		if c := detail[i]; c < ' ' || c == 0x7f {
			t.Errorf("detail has a control character: %q", detail)
			return
		}
	}
}

func TestDecodeAcceptsVectors(t *testing.T) {
	t.Parallel()
	whole := make(map[string]map[string]any) // golden files
	for _, v := range vectors[vector](t, "accepted.json") {
		if v.Of != "" && v.Replace == "" {
			whole[v.Of] = v.As
		} else if v.Of != "" && v.As == nil {
			v.As = whole[v.Of]
		}
		m, err := envelope.Decode(v.body(t))
		if err != nil {
			t.Errorf("%s: %v", v.Name, err)
			continue
		}
		if diff := cmp.Diff(v.As, written(t, m)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", v.Name, diff)
		}
		checkDecode(t, v.body(t))
	}
}

// written returns a message as the service writes it, with the fields that it does not write
// itself; without a payload if the type is unknown.
func written(t *testing.T, m envelope.Message) map[string]any {
	t.Helper()
	fields, trace := make(map[string]any), timer.Trace{}
	if m.Payload != nil {
		var body []byte
		body, trace = encodeAgain(m.Payload)
		d := json.NewDecoder(bytes.NewReader(body))
		d.UseNumber()
		if err := d.Decode(&fields); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		fields["timestampMs"] = json.Number(fmt.Sprint(m.TimestampMS))
	}
	for name, value := range map[string]string{
		"id": m.ID, "type": m.Type, "tenantId": string(m.TenantID), "aggregateId": m.AggregateID, "correlationId": m.CorrelationID,
		"causationId": m.CausationID, "traceparent": trace.Parent, "tracestate": trace.State,
	} {
		fields[name] = value
	}
	maps.DeleteFunc(fields, func(_ string, value any) bool { return value == "" })
	return fields
}

// encodeAgain encodes a payload that was decoded, and returns the trace, which is not in the body.
func encodeAgain(payload any) ([]byte, timer.Trace) {
	switch p := payload.(type) {
	case timer.ScheduleTimer:
		return envelope.Schedule(p), p.Trace
	case timer.ScheduleTimers:
		return envelope.ScheduleMany(p), p.Commands[0].Trace
	case timer.CancelTimer:
		return envelope.Cancel(p), p.Trace
	case timer.CancelTimers:
		return envelope.CancelMany(p), p.Trace
	case timer.RescheduleTimers:
		return envelope.RescheduleMany(p), p.Trace
	case timer.DueTimeReached:
		return envelope.Reached(p), p.Trace
	case timer.TimerExpired:
		return envelope.Reached(p.Event()), p.Trace
	case timer.Receipt:
		return envelope.Format{}.Receipt(p), p.Trace
	}
	panic(fmt.Sprintf("%T is not encoded", payload))
}

// Times are kept in UTC and rounded up. Several of the refused ones pass
// time.Parse(time.RFC3339Nano, …) or its siblings in other languages.
func TestParsesTimesOfVectors(t *testing.T) {
	t.Parallel()
	for _, v := range vectors[struct {
		Time   vectorText
		Kept   string // empty if it is refused
		Detail string // a part of the detail
	}](t, "times.json") {
		got, err := envelope.ParseTime(string(v.Time))
		if v.Kept == "" {
			invalid, ok := errors.AsType[*timer.InvalidError](err)
			if !ok || invalid.Reason != timer.ReasonBadTime || !strings.Contains(invalid.Detail, v.Detail) {
				t.Errorf("%q: got error %v, want one with %q in it", v.Time, err, v.Detail)
			}
			continue
		}
		if err != nil || envelope.FormatTime(got) != v.Kept || got.Location() != time.UTC || got.Nanosecond()%1e6 != 0 {
			t.Errorf("%s: %v, %v, want %s in UTC and whole milliseconds", v.Time, got, err, v.Kept)
		}
	}
}
