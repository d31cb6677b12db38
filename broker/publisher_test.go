package broker_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
)

// stuckPublisher is a publisher that knows no result before its context ends.
type stuckPublisher struct{}

func (stuckPublisher) Publish(ctx context.Context, messages ...broker.Message) []error {
	<-ctx.Done()
	return broker.All(len(messages), ctx.Err())
}

func TestPublishEndsWithTheContextOfItsMessage(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	m := message.NewMessage("id", nil)
	m.SetContext(ctx)
	cancel()
	if err := broker.NewWatermillPublisher(stuckPublisher{}).Publish("topic", m); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that the context was canceled", err)
	}
}
