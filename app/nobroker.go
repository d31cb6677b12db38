package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/timer"
)

// noBroker takes the place of the broker in an app that has none. No command comes from it, it
// refuses all messages, and it is always available.
type noBroker struct{}

var errNoBroker = fmt.Errorf("%w: there is no broker", broker.ErrRefused)

// Run does nothing until ctx is done.
func (noBroker) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Ready returns nil.
func (noBroker) Ready(context.Context) error { return nil }

// Publisher returns one that refuses all messages.
func (noBroker) Publisher() broker.Publisher { return noPublisher{} }

// Subscriber returns one that no message comes from.
func (noBroker) Subscriber(string) message.Subscriber { return noSubscriber{} }

// Tail returns one that no message comes from.
func (noBroker) Tail() message.Subscriber { return noSubscriber{} }

// CatchUp returns [errors.ErrUnsupported]: nothing waits anywhere.
func (noBroker) CatchUp(context.Context, string) error { return errors.ErrUnsupported }

// Interruptions returns none.
func (noBroker) Interruptions() (int64, error) { return 0, nil }

// Routing names topics that nothing is sent to.
func (noBroker) Routing() broker.Routing {
	return broker.Routing{Commands: "none.commands", Events: "none.events", DeadLetters: "none.dlq"}
}

// Now returns [errors.ErrUnsupported].
func (noBroker) Now(context.Context) (time.Time, error) { return time.Time{}, errors.ErrUnsupported }

// History returns none.
func (noBroker) History() (broker.History, string) { return nil, "there is no broker" }

// Provision returns nothing: there is no server.
func (noBroker) Provision(context.Context, bool) ([]broker.Change, error) { return nil, nil }

// Claim returns [errors.ErrUnsupported]: there are no commands to own.
func (noBroker) Claim(context.Context, string, broker.Owner, bool) (broker.Owner, error) {
	return broker.Owner{}, errors.ErrUnsupported
}

// VisitDeadLetters visits none.
func (noBroker) VisitDeadLetters(context.Context, timer.TenantID, string, broker.DeadLetterVisit) error {
	return nil
}

type noPublisher struct{}

// Publish refuses all messages.
func (noPublisher) Publish(_ context.Context, messages ...broker.Message) []error {
	return broker.All(len(messages), errNoBroker)
}

type noSubscriber struct{}

// Subscribe returns a channel that is closed when ctx is done.
func (noSubscriber) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	none := make(chan *message.Message)
	context.AfterFunc(ctx, func() { close(none) })
	return none, nil
}

// Close does nothing.
func (noSubscriber) Close() error { return nil }

var _ broker.Broker = noBroker{}
