package broker_test

import (
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"pgregory.net/rapid"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// TestKeyIsThatOfTheDecoder writes bodies of members that envelopes and
// CloudEvents have, some of them twice over in both spellings, in any order:
// whatever decodes has one key.
func TestKeyIsThatOfTheDecoder(t *testing.T) {
	t.Parallel()
	taken := map[bool]int{} // valid bodies, by whether they are CloudEvents
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.SampledFrom([]string{`"acme"`, `"acme"`, `"\u0061cme"`, `"acme"`, `"other"`, `null`})
		payload := func(label string) string {
			members := []string{`"tenantId":` + id.Draw(t, label+" tenant"), `"serviceCallId":` + id.Draw(t, label+" call"), `"x":[{"serviceCallId":"no"}]`}
			return "{" + strings.Join(rapid.Permutation(members).Draw(t, label), ",") + "}"
		}
		cloud := rapid.Bool().Draw(t, "cloud")
		members := []string{`"id":"1"`, `"type":"CancelTimer"`}
		some := []string{ // of the other kind, or optional
			`"aggregateId":` + id.Draw(t, "aggregate"), `"subject":` + id.Draw(t, "subject"), `"tenantid":` + id.Draw(t, "tenantid"), `"note":{"data":{}}`,
		}
		if cloud {
			members = append(members, `"specversion":"1.0"`, `"source":"/a"`, `"time":"2030-01-01T00:00:00Z"`, `"data":`+payload("data"))
			some = append(some, `"payload":`+payload("payload"))
		} else {
			members = append(members, `"tenantId":`+id.Draw(t, "tenant"), `"timestampMs":1`, `"payload":`+payload("payload"))
			some = append(some, `"data":`+payload("data"))
		}
		some = rapid.Permutation(some).Draw(t, "some")
		members = append(members, some[:rapid.IntRange(0, len(some)).Draw(t, "of them")]...)
		body := []byte("{" + strings.Join(rapid.Permutation(members).Draw(t, "members"), ",") + "}")

		decoded, err := envelope.Decode(body)
		if err != nil {
			return
		}
		taken[cloud]++
		want := decoded.Payload.(timer.CancelTimer).Key.String()
		if got := broker.Key(message.NewMessage("id", body)); got != want {
			t.Fatalf("%s: got %q, want %q", body, got, want)
		}
		if got := envelope.TenantOf(body); got != decoded.TenantID {
			t.Fatalf("%s: tenant %q, want %q", body, got, decoded.TenantID)
		}
	})
	if taken[true] == 0 || taken[false] == 0 {
		t.Errorf("valid bodies, by whether they are CloudEvents: %v", taken)
	}
}
