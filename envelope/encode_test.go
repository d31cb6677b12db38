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
