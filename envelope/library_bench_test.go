package envelope_test

import (
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/event-service-agent/timer-service/envelope"
)

// What an event would be for the JSON library.
type (
	libraryEvent struct {
		ID            string         `json:"id"`
		Type          string         `json:"type"`
		TenantID      string         `json:"tenantId"`
		AggregateID   string         `json:"aggregateId"`
		TimestampMS   int64          `json:"timestampMs"`
		CorrelationID string         `json:"correlationId,omitzero"`
		Payload       libraryPayload `json:"payload"`
	}
	libraryPayload struct {
		TenantID      string `json:"tenantId"`
		ServiceCallID string `json:"serviceCallId"`
		DueAt         string `json:"dueAt"`
		ReachedAt     string `json:"reachedAt"`
	}
	libraryHeaders struct {
		CorrelationID string `json:"correlationId,omitzero"`
		MessageID     string `json:"messageId"`
		ServiceCallID string `json:"serviceCallId"`
		TenantID      string `json:"tenantId"`
		Type          string `json:"type"`
	}
)

// BenchmarkAgainstLibrary measures what the encoders of our own gain over the JSON
// library, for the three steps that each event goes through.
func BenchmarkAgainstLibrary(b *testing.B) {
	e := benchEvent
	e.ID = envelope.EventID(e)
	run := func(name string, step func() (int, error)) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if n, err := step(); n == 0 || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
	run("Reached/own", func() (int, error) { return len(envelope.Reached(e)), nil })
	run("Reached/library", func() (int, error) {
		tenant, call := string(e.TenantID), string(e.ServiceCallID)
		body, err := json.Marshal(libraryEvent{
			e.ID, "DueTimeReached", tenant, call, e.ReachedAt.UnixMilli(), e.CorrelationID,
			libraryPayload{tenant, call, envelope.FormatTime(e.DueAt), envelope.FormatTime(e.ReachedAt)},
		})
		return len(body), err
	})
	run("EncodeHeaders/own", func() (int, error) { return len(envelope.EncodeHeaders(e)), nil })
	run("EncodeHeaders/library", func() (int, error) {
		text, err := json.Marshal(libraryHeaders{e.CorrelationID, e.ID, string(e.ServiceCallID), string(e.TenantID), "DueTimeReached"})
		return len(text), err
	})
	text := string(envelope.EncodeHeaders(e))
	run("DecodeHeaders/own", func() (int, error) {
		h, err := envelope.DecodeHeaders(text)
		return len(h), err
	})
	run("DecodeHeaders/library", func() (int, error) {
		h := make(map[string]string, 8)
		err := json.Unmarshal([]byte(text), &h)
		return len(h), err
	})
}
