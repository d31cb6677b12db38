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

// A Mark is what an operator decided. It stands among the dead letters of a tenant, where
// the recovery of a lost database finds it, and is in no list.
type Mark string

// Marks.
const (
	MarkDiscarded Mark = "discarded" // a dead letter, whose original is in the headers
	MarkForgotten Mark = "forgotten" // the tenant, with all that came before
	MarkPaused    Mark = "paused"    // firing, of the tenant or of all
	MarkResumed   Mark = "resumed"   // the same
)

// MarkOf returns the mark that a message is, or "".
func MarkOf(msg *message.Message) Mark {
	if msg.Metadata.Get(envelope.HeaderType) != envelope.TypeMark {
		return ""
	}
	return Mark(msg.Metadata.Get(envelope.HeaderMark))
}

// Leave publishes a mark with more headers, if the broker keeps what was read: without
// that nothing recovers a database.
func Leave(ctx context.Context, b Broker, tenant timer.TenantID, mark Mark, headers map[string]string) error {
	if kept, _ := b.History(); kept == nil {
		return nil
	}
	msg := message.NewMessage(uuid.NewString(), []byte("{}")) // a body, since Kafka takes none for a deletion
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
