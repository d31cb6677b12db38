package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/option"
	"github.com/event-service-agent/timer-service/timer"
)

// OnDueOptions tune [OnDue].
type OnDueOptions struct {
	Topic string // topic of the events, such as broker.Routing.EventsOf of a tenant; required
	Name  string // name of the handler, of which a router has one; default "timers of " and the topic

	// Expired has handle called for timers that expired, too, see [timer.TimerExpired]: the
	// State of their events is [timer.Expired]. Default: they are acked without a call.
	Expired bool

	// Remember is how many events that were handled are remembered, so that they are
	// not handled again; default 10000, at most twice as many are kept. Negative: none.
	Remember int

	// Once replaces that memory: it calls handle unless the event of this id was
	// handled. Done in a transaction of the program's, which inserts the id, calls
	// handle with a context that has the transaction, and commits if that returned
	// nil, the work is done once.
	Once func(ctx context.Context, id string, handle func(ctx context.Context) error) error

	// Invalid decides about a message that can't be read as one of the
	// contract. The message is acked if it returns nil. Default: the error is that
	// of the handler, for the poison queue of the router, see [IsInvalid].
	Invalid func(msg *message.Message, err error) error
}

// IsInvalid reports whether the error of a handler says that its message can't be read,
// however often it comes: the filter for Watermill's PoisonQueueWithFilter. Without a
// poison queue and [OnDueOptions.Invalid] such a message comes again and again.
func IsInvalid(err error) bool { return errors.Is(err, timer.ErrInvalid) }

// ByPrefix returns a handle for [OnDue] that calls the one with the longest prefix of the
// event's service call id, such as "order-", of several on one subscription; "" is for all
// that no other one has. An event that none has is not for this program: it is acked, as
// messages of other types are. It panics if no service call id can begin with a prefix, or if a
// prefix has no handle.
func ByPrefix(handles map[string]func(ctx context.Context, e timer.DueTimeReached) error) func(ctx context.Context, e timer.DueTimeReached) error {
	for prefix, handle := range handles {
		if handle == nil {
			panic("client: ByPrefix without a function for the prefix " + timer.Quote(prefix))
		}
		if prefix != "" && timer.ValidatePrefix("prefix", prefix) != nil {
			panic("client: ByPrefix with a prefix that no service call id has: " + timer.Quote(prefix))
		}
	}
	return func(ctx context.Context, e timer.DueTimeReached) error {
		for n := len(e.ServiceCallID); n >= 0; n-- {
			if handle := handles[string(e.ServiceCallID[:n])]; handle != nil {
				return handle(ctx, e)
			}
		}
		return nil
	}
}

// OnDue adds a handler to a router, which is called for each timer that fires. Its
// message is acked when it returns nil. After an error it comes again, as the
// middleware of the router and the subscriber say. Several events are handled at once
// if the subscriber delivers so. The context is that of the message, with the trace of
// the event. Messages of other types are acked. Give [ByPrefix] for several handlers.
//
// With [timer.Later] handle has the event again about then, and no middleware sees an error. Over
// broker/nats the server keeps it until then, within the retention of the stream. The other
// drivers can't wait: there the message comes again as after an error, after seconds. Other
// subscribers find the delay as Watermill's package delay says.
func OnDue(
	router *message.Router, sub message.Subscriber, handle func(ctx context.Context, e timer.DueTimeReached) error, opt OnDueOptions,
) *message.Handler {
	if opt.Topic == "" || handle == nil {
		panic("client: OnDue needs a topic to subscribe to, such as routing.EventsOf(tenant), and a handler")
	}
	option.Require("client.OnDue", "router", router, "subscriber", sub)
	opt.Name = cmp.Or(opt.Name, "timers of "+opt.Topic)
	opt.Remember = cmp.Or(opt.Remember, 10_000)
	if opt.Once == nil {
		opt.Once = (&handledIDs{most: opt.Remember}).once
	}
	if opt.Invalid == nil {
		opt.Invalid = func(_ *message.Message, err error) error { return err }
	}
	return router.AddConsumerHandler(opt.Name, opt.Topic, sub, func(msg *message.Message) error {
		m, err := envelope.DecodeWith(msg.Payload, msg.Metadata.Get)
		if err != nil {
			return opt.Invalid(msg, fmt.Errorf("decode message %s: %w", timer.Quote(msg.UUID), err))
		}
		e, ok := timer.EventOf(m.Payload)
		if !ok || e.State() == timer.Expired && !opt.Expired {
			return nil
		}
		err = opt.Once(WithTrace(msg.Context(), e.Trace), e.ID, func(ctx context.Context) error { return handle(ctx, e) })
		if later, ok := errors.AsType[*timer.LaterError](err); ok {
			delay.Message(msg, delay.For(max(0, later.After)))
			msg.Nack() // the router would log an error, and its middleware try again or dead-letter it
			return nil
		}
		return err
	})
}
