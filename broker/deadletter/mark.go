package deadletter

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// A Mark is the kind of a message that records an operator's decision. It is published
// among the dead letters of a tenant, where the recovery of a lost database finds it. No
// list of dead letters contains it.
type Mark string

// Marks.
const (
	MarkDiscarded Mark = "discarded" // a dead letter was discarded; headers name its original
	MarkReplayed  Mark = "replayed"  // a dead letter was replayed; headers name its original
	MarkForgotten Mark = "forgotten" // the tenant was forgotten, with everything before the mark
	MarkPaused    Mark = "paused"    // firing was paused, for the tenant or for all
	MarkResumed   Mark = "resumed"   // firing was resumed, for the tenant or for all
)

// MarkOf returns the mark of a message, or "" if the message is not a mark.
func MarkOf(msg *message.Message) Mark {
	if msg.Metadata.Get(envelope.HeaderType) != envelope.TypeMark {
		return ""
	}
	return Mark(msg.Metadata.Get(envelope.HeaderMark))
}

// Ours reports whether a message among the dead letters is a dead letter or a mark, on the topic
// of its tenant. Any other message is not of the service, such as an answer of the broker to a
// producer that named the topic for it, and a recovery takes it as absent.
func Ours(routing broker.Routing, msg *message.Message) bool {
	get := msg.Metadata.Get
	kind, tenant := get(envelope.HeaderType), cmp.Or(timer.TenantID(get(envelope.HeaderTenantID)), timer.NoTenant)
	return (kind == envelope.TypeDeadLetter || kind == envelope.TypeMark) && get(broker.MetaTopic) == routing.DeadLettersOf(tenant)
}

// maxAhead is how much later than the broker stored it a decision can have been made: the clocks
// of the service and the broker may differ.
const maxAhead = time.Minute

// DecisionsOf returns the decisions of operators in a message, about firing and about
// forgotten tenants. A forgotten tenant is not paused. A mark of an earlier version has no time,
// and counts with the time when it was stored.
func DecisionsOf(stored broker.Stored) []timer.Decision {
	get := stored.Message.Metadata.Get
	d := timer.Decision{TenantID: timer.TenantID(get(envelope.HeaderTenantID)), Kind: timer.DecidedFiring, At: timeOf(get(envelope.HeaderMarkAt)), Published: true}
	if d.TenantID != "" && d.TenantID.Validate() != nil { // anyone may have written it
		return nil
	}
	if d.At.IsZero() || d.At.Sub(stored.At) > maxAhead {
		d.At = timer.RoundDown(stored.At)
	}
	switch MarkOf(stored.Message) {
	case MarkForgotten:
		forgotten := d
		forgotten.Kind = timer.DecidedForgotten
		return []timer.Decision{forgotten, d}
	case MarkResumed:
		return []timer.Decision{d}
	case MarkPaused:
		d.Pause = timer.Pause{TenantID: d.TenantID, Since: timeOf(get(envelope.HeaderMarkSince)), Until: timeOf(get(envelope.HeaderMarkUntil)), By: get(envelope.HeaderMarkBy)}
		if d.Pause.Since.IsZero() {
			d.Pause.Since = d.At
		}
		return []timer.Decision{d}
	}
	return nil
}

// Leave publishes the marks of decisions, and returns the result of each. It does nothing if the
// broker does not keep messages after their ack, since then no recovery reads the marks.
func Leave(ctx context.Context, b Broker, decisions ...timer.Decision) []error {
	if kept, _ := b.History(); kept == nil || len(decisions) == 0 {
		return make([]error, len(decisions))
	}
	marks := make([]broker.Message, len(decisions))
	for i, d := range decisions {
		tenant := cmp.Or(d.TenantID, timer.NoTenant)
		marks[i] = broker.Message{Topic: b.Routing().DeadLettersOf(tenant), Message: markOfDecision(tenant, d)}
	}
	results := b.Publisher().Publish(ctx, marks...)
	for i, err := range results {
		if err != nil {
			results[i] = fmt.Errorf("tell the broker, for a recovery: %w", err)
		}
	}
	return results
}

// markOfDecision returns the message of a mark of a decision.
func markOfDecision(tenant timer.TenantID, d timer.Decision) *message.Message {
	mark, headers := MarkResumed, map[string]string{envelope.HeaderMarkAt: envelope.FormatTime(d.At)}
	switch {
	case d.Kind == timer.DecidedForgotten:
		mark = MarkForgotten
	case d.Pause.Paused():
		mark = MarkPaused
		headers[envelope.HeaderMarkBy], headers[envelope.HeaderMarkSince] = d.Pause.By, envelope.FormatTime(d.Pause.Since)
		if !d.Pause.Until.IsZero() {
			headers[envelope.HeaderMarkUntil] = envelope.FormatTime(d.Pause.Until)
		}
	}
	return markOf(tenant, mark, headers)
}

// markOf returns the message of a mark.
func markOf(tenant timer.TenantID, mark Mark, headers map[string]string) *message.Message {
	// The body is not empty, since Kafka takes a message without one for a deletion.
	msg := message.NewMessage(uuid.NewString(), []byte("{}"))
	for name, value := range headers {
		msg.Metadata.Set(name, value)
	}
	msg.Metadata.Set(envelope.HeaderMessageID, msg.UUID)
	msg.Metadata.Set(envelope.HeaderType, envelope.TypeMark)
	msg.Metadata.Set(envelope.HeaderMark, string(mark))
	if tenant != timer.NoTenant {
		msg.Metadata.Set(envelope.HeaderTenantID, string(tenant))
	}
	return msg
}

// markOfOriginal returns the message of a mark that names the original of a dead letter.
func markOfOriginal(m Message, mark Mark) *message.Message {
	return markOf(m.Tenant, mark, map[string]string{
		envelope.HeaderDeadLetterTopic: m.Topic, envelope.HeaderDeadLetterPosition: m.Position, envelope.HeaderDeadLetterOriginalID: m.OriginalID,
	})
}
