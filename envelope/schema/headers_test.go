package schema_test

import (
	"maps"
	"testing"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/source"
	"github.com/event-service-agent/timer-service/timer"
)

// headers returns the schemas of the headers.
func headers(t *testing.T) map[string]object {
	t.Helper()
	identity := map[string]any{
		envelope.HeaderTenantID:      text(tenantForm, "As in the body."),
		envelope.HeaderServiceCallID: call("As in the payload."),
		envelope.HeaderMessageID:     text(idForm, "The id of the body."),
	}
	correlation := text(idForm, "Trace of the request.")
	parent, state := text(traceParentForm, "W3C Trace Context."), text(`^[ -~]{1,512}$`, "W3C Trace Context.")
	number, at := `^[0-9]{1,4}$`, `^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$`
	reasons := source.Constants(t, "../../timer", "Reason")
	words := text(`^[a-z0-9_]+$`, "Why the message was refused. More words may come.")
	words["examples"] = reasons

	event := map[string]any{
		envelope.HeaderType:          object{"enum": []any{envelope.TypeDueTimeReached, envelope.TypeTimerExpired}},
		envelope.HeaderCorrelationID: correlation,
		envelope.HeaderTraceParent:   parent,
		envelope.HeaderTraceState:    state,
		envelope.HeaderContentType:   object{"const": envelope.ContentTypeCloudEvents, "description": "If the body is a CloudEvent."},
	}
	for name, s := range identity {
		event[name] = s
	}
	receipt := maps.Clone(event)
	receipt[envelope.HeaderType] = object{"enum": []any{timer.TimerScheduled, timer.TimerCanceled, timer.TimerIgnored, timer.TimerRejected}}
	return map[string]object{
		"ReceiptHeaders": {
			"title": "ReceiptHeaders", "type": "object", "properties": receipt,
			"required": []string{envelope.HeaderType, envelope.HeaderTenantID, envelope.HeaderMessageID},
		},
		"CommandHeaders": {
			"title": "CommandHeaders", "type": "object",
			"description": "The headers that the service reads. It ignores malformed ones, and all others. A producer may leave all of them out.",
			"properties": object{
				envelope.HeaderCorrelationID:     object{"type": "string", "description": "Trace of the request, if the body has none."},
				envelope.HeaderTraceParent:       object{"type": "string", "description": "W3C Trace Context, if the body has none."},
				envelope.HeaderTraceState:        object{"type": "string", "description": "W3C Trace Context."},
				envelope.HeaderDeadLetterReplays: object{"type": "string", "description": "Of a dead letter that is replayed: how often it was."},
				envelope.HeaderDeadLetterFirstAt: object{"type": "string", "description": "Of a dead letter that is replayed: as it was."},
			},
		},
		"EventHeaders": {
			"title": "EventHeaders", "type": "object", "properties": event,
			"required": []string{envelope.HeaderType, envelope.HeaderTenantID, envelope.HeaderServiceCallID, envelope.HeaderMessageID},
		},
		"DeadLetterHeaders": {
			"title": "DeadLetterHeaders", "type": "object",
			"description": "The body is that of the refused message, byte for byte.",
			"properties": object{
				envelope.HeaderType:                 object{"const": envelope.TypeDeadLetter},
				envelope.HeaderTenantID:             text(`^(_|[A-Za-z0-9][A-Za-z0-9_-]{0,63})$`, "Whose dead letter it is; _ if no valid tenant is named."),
				envelope.HeaderMessageID:            text(idForm, "An id of the dead letter's own."),
				envelope.HeaderCorrelationID:        correlation,
				envelope.HeaderDeadLetterReason:     words,
				envelope.HeaderDeadLetterDetail:     text(`^[ -~]+$`, "The reason for people."),
				envelope.HeaderDeadLetterTopic:      text(`^[ -~]+$`, "Topic of the original."),
				envelope.HeaderDeadLetterPosition:   text(`^[ -~]+$`, "Position of the original in its topic."),
				envelope.HeaderDeadLetterOriginalID: text(`^[ -~]+$`, "Id of the original."),
				envelope.HeaderDeadLetterFirstAt:    text(at, "When it first became a dead letter."),
				envelope.HeaderDeadLetterLastAt:     text(at, "When it last became one."),
				envelope.HeaderDeadLetterCount:      text(number, "How often it became one."),
				envelope.HeaderDeadLetterReplays:    text(number, "How often it was replayed."),
				envelope.HeaderDeadLetterTruncated:  object{"const": "true", "description": "The broker refused so large a body, and the rest of it was cut off."},
			},
			"required": []string{
				envelope.HeaderType, envelope.HeaderTenantID, envelope.HeaderMessageID, envelope.HeaderDeadLetterReason, envelope.HeaderDeadLetterDetail,
				envelope.HeaderDeadLetterTopic, envelope.HeaderDeadLetterFirstAt, envelope.HeaderDeadLetterLastAt, envelope.HeaderDeadLetterCount, envelope.HeaderDeadLetterReplays,
			},
		},
	}
}
