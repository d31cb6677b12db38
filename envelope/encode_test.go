package envelope_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

func TestRoundsDueTimesUpAndTheClockDown(t *testing.T) {
	t.Parallel()
	noon := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

	c := goldenSchedule
	c.DueAt = noon.Add(time.Nanosecond).In(time.FixedZone("CET", 3600))
	if body := string(envelope.Schedule(c)); !strings.Contains(body, `"dueAt":"2030-01-01T12:00:00.001Z"`) {
		t.Errorf("dueAt is not rounded up: %s", body)
	}

	e := goldenReached
	e.DueAt, e.ReachedAt = c.DueAt, noon.Add(1_999_999).In(c.DueAt.Location())
	body := string(envelope.Reached(e))
	for _, want := range []string{
		`"dueAt":"2030-01-01T12:00:00.001Z"`, `"reachedAt":"2030-01-01T12:00:00.001Z"`, `"timestampMs":1893499200001,`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("event has no %s: %s", want, body)
		}
	}
}

func TestEncodesIdentifiersThatNeedEscapes(t *testing.T) {
	t.Parallel()
	c := goldenCancel
	c.CommandID = `<a href="\x">&amp;</a>`
	body := envelope.Cancel(c)
	if want := `{"id":"<a href=\"\\x\">&amp;</a>",`; !strings.HasPrefix(string(body), want) {
		t.Errorf("got %s, want it to begin with %s", body, want)
	}
	for _, id := range []string{`"`, `\`, `\"`, `\u0041`, `!"#$%&'()*+,-./:;<=>?@[\]^_{|}~`} {
		c.CommandID, c.CorrelationID = id, id
		m, err := envelope.Decode(envelope.Cancel(c))
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		if m.Payload != any(c) {
			t.Errorf("got %+v, want %+v", m.Payload, c)
		}
	}
}

// Two broken ids must not meet in one valid id, and a quote must not end a
// string.
func TestNothingInvalidBecomesValidByEncoding(t *testing.T) {
	t.Parallel()
	for _, broken := range []string{"", "a\xffb", "a\xfeb", "a b", "a\x00b", "a\nb", "é", "a\u2028b", `a","type":"X`, strings.Repeat("a", 129)} {
		for field, c := range map[string]timer.CancelTimer{
			"tenantId":      {Key: timer.Key{TenantID: timer.TenantID(broken), ServiceCallID: "sc-1"}, Version: goldenCancel.Version},
			"serviceCallId": {Key: timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(broken)}, Version: goldenCancel.Version},
			"id":            {Key: goldenKey, Version: timer.Version{CommandID: broken}},
			"correlationId": {Key: goldenKey, Version: goldenCancel.Version, CorrelationID: broken},
		} {
			if c.Validate() == nil {
				continue // an empty correlation id, or a quote in an id
			}
			body := envelope.Cancel(c)
			if !json.Valid(body) || !utf8.Valid(body) {
				t.Errorf("%s %q: encodes as broken JSON: %s", field, broken, body)
			}
			if _, err := envelope.Decode(body); !errors.Is(err, timer.ErrInvalid) {
				t.Errorf("%s %q: decodes with error %v from %s", field, broken, err, body)
			}
		}
	}
}

// An event that fired in time says when it would have expired.
func TestAnEventThatFiredCarriesItsExpiry(t *testing.T) {
	t.Parallel()
	e := goldenReached
	e.ExpiresAt = goldenExpiresAt.Add(-time.Millisecond + 1) // rounded up
	m, err := envelope.Decode(envelope.Reached(e))
	if got, ok := m.Payload.(timer.DueTimeReached); err != nil || !ok || !got.ExpiresAt.Equal(goldenExpiresAt) || m.ID != envelope.EventID(goldenReached) {
		t.Errorf("%v, %+v", err, m)
	}
}

// Values of data that come back byte for byte.
var datas = []string{
	`{"a":1}`, `{ "b" : [ 1.0, 1e2, -0, 123456789012345678901234567890 ],` + "\n\t" + `"a":null }`, `null`, `""`, `0`, `false`, `[]`, `"<\u0026>\u00e9é\/\ud83d\ude00"`,
	`"` + strings.Repeat("x", timer.MaxDataBytes-2) + `"`, strings.Repeat("[", 12) + strings.Repeat("]", 12), `{"tenantId":"evil","dueAt":7,"data":{"data":1}}`,
}

func TestDataComeBackByteForByte(t *testing.T) {
	t.Parallel()
	const marker = `"dueAt":"2030-01-31T11:30:00.500Z"`
	for _, data := range datas {
		body := edit(t, "schedule_timer.json", marker, marker+` , "data" : `+data+` `)
		m, err := envelope.Decode(body)
		if err != nil {
			t.Errorf("%.50s: %v", data, err)
			continue
		}
		clear(body) // the message shares no memory with it
		command := m.Payload.(timer.ScheduleTimer)
		if command.Data != data {
			t.Errorf("decodes to %.50s, want %.50s", command.Data, data)
		}
		for what, body := range map[string][]byte{"command": envelope.Schedule(command), "event": envelope.Reached(eventWith(command, data)), "CloudEvent": cloudEvents.Reached(eventWith(command, data))} {
			if !strings.Contains(string(body), `,"data":`+data+"}}") {
				t.Errorf("%s has not the data %.50s: %.500s", what, data, body)
			}
			if m, err := envelope.Decode(body); err != nil || dataOf(m) != data {
				t.Errorf("%s decodes to %+v, %v", what, m, err)
			}
		}
	}
}

// Text that is no JSON value makes the body none, and never another command.
func TestDataThatAreInvalidStayInvalid(t *testing.T) {
	t.Parallel()
	for _, data := range []string{
		" 1", "1 ", "1\n", "1 2", "1,2", `1,"dueAt":"2031-01-01T00:00:00Z"`, `1},"x":{"y":2`, "{", "}", "", "x", `{"a":1,"a":1}`, "\"\xff\"", `"\udc00"`,
		`"` + strings.Repeat("x", timer.MaxDataBytes-1) + `"`, strings.Repeat("[", 15) + strings.Repeat("]", 15),
	} {
		if err := envelope.ValidateData("data", data); !errors.Is(err, timer.ErrInvalid) {
			t.Errorf("%.50q: %v", data, err)
		}
		if data == "" {
			continue // there are none
		}
		c := goldenSchedule
		c.Data = data
		many := timer.ScheduleTimers{TenantID: c.TenantID, Version: c.Version, Commands: []timer.ScheduleTimer{c}}
		for what, body := range map[string][]byte{
			"command": envelope.Schedule(c), "commands": envelope.ScheduleMany(many), "event": envelope.Reached(eventWith(c, data)), "CloudEvent": cloudEvents.Reached(eventWith(c, data)),
		} {
			if m, err := envelope.Decode(body); !errors.Is(err, timer.ErrInvalid) {
				t.Errorf("%s with %.50q decodes to %+v, %v", what, data, m, err)
			}
		}
	}
	for _, data := range datas {
		if err := envelope.ValidateData("data", data); err != nil {
			t.Errorf("%.50s: %v", data, err)
		}
	}
}

// eventWith returns the event of a command, with data.
func eventWith(c timer.ScheduleTimer, data string) timer.DueTimeReached {
	e := goldenReached
	e.Key, e.CommandID, e.DueAt, e.Data = c.Key, c.CommandID, c.DueAt, data
	return e
}

func dataOf(m envelope.Message) string {
	switch payload := m.Payload.(type) {
	case timer.ScheduleTimer:
		return payload.Data
	case timer.DueTimeReached:
		return payload.Data
	}
	return "none"
}
