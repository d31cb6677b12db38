package deadletter

import (
	"context"
	"fmt"

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

// Leave publishes a mark with more headers. It does nothing if the broker does not keep
// messages after their ack, since then no recovery reads the mark.
func Leave(ctx context.Context, b Broker, tenant timer.TenantID, mark Mark, headers map[string]string) error {
	if kept, _ := b.History(); kept == nil {
		return nil
	}
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
	if err := broker.Join(b.Publisher().Publish(ctx, broker.Message{Topic: b.Routing().DeadLettersOf(tenant), Message: msg})); err != nil {
		return fmt.Errorf("tell the broker, for a recovery: %w", err)
	}
	return nil
}

// leaveOriginal publishes a mark that names the original of a dead letter, unless its position
// is not known.
func leaveOriginal(ctx context.Context, b Broker, m Message, mark Mark) error {
	if m.Position == "" {
		return nil
	}
	return Leave(ctx, b, m.Tenant, mark, map[string]string{
		envelope.HeaderDeadLetterTopic: m.Topic, envelope.HeaderDeadLetterPosition: m.Position, envelope.HeaderDeadLetterOriginalID: m.OriginalID,
	})
}
