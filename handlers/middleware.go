package handlers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// middleware returns the chain, outermost first. Each link stands where its
// meaning needs it: what lies inside the poison queue may call a message
// invalid; what lies inside Retry touches the store and is worth another try;
// a message is decoded once, outside Retry, since a second look can't make it
// valid.
func (h *Handlers) middleware() ([]message.HandlerMiddleware, error) {
	poison, err := middleware.PoisonQueueWithFilter(h.dead, poisonTopic, isInvalid)
	if err != nil {
		return nil, fmt.Errorf("build the poison queue: %w", err)
	}
	retry := middleware.Retry{
		MaxRetries:          2,
		InitialInterval:     50 * time.Millisecond,
		Multiplier:          4,
		MaxInterval:         time.Second,
		RandomizationFactor: 0.2,
		ResetContextOnRetry: true,
	}
	return []message.HandlerMiddleware{
		middleware.CorrelationID,
		h.count,
		h.drain,
		poison,
		explain,
		h.decode,
		h.keepQuota,
		h.holdWhileDown,
		retry.Middleware,
		middleware.Recoverer,
	}, nil
}

func isInvalid(err error) bool { return errors.Is(err, timer.ErrInvalid) }

// count reports what became of a delivery.
func (h *Handlers) count(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		d := &delivery{incoming: received{msg}}
		msg.SetContext(context.WithValue(msg.Context(), deliveryKey{}, d))
		produced, err := next(msg)
		switch {
		case err != nil:
			d.result.Outcome = OutcomeFailed
		case d.result.Outcome == "":
			d.result.Outcome = OutcomeInvalid
		}
		if d.result.Type == "" {
			d.result.Type = "other"
		}
		h.opt.Handled(d.result)
		return produced, err
	}
}

// drain gives handlers a context that outlives the stop by DrainTimeout. The
// router cancels the contexts of messages in flight at once, which would break
// healthy transactions.
func (h *Handlers) drain(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		msg.SetContext(work{Context: h.working, values: msg.Context()})
		return next(msg)
	}
}

// work is a context that takes its end from one context and its values from
// another.
type work struct {
	context.Context
	values context.Context
}

// Value returns the value of the message's own context.
func (w work) Value(key any) any { return w.values.Value(key) }

// explain leaves the reason of an invalid message in its metadata, where the
// publisher of dead letters finds it, and lets the messages behind it go on: ten
// thousand invalid ones of one key would wait for each other's dead letters, and
// meanwhile be all that the broker lets the service have at once.
func explain(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		produced, err := next(msg)
		var invalid *timer.InvalidError
		if errors.As(err, &invalid) {
			msg.Metadata.Set(envelope.HeaderDeadLetterReason, string(invalid.Reason))
			msg.Metadata.Set(envelope.HeaderDeadLetterDetail, invalid.Detail)
			envelope.LeavePlace(msg.Context())
		}
		return produced, err
	}
}

// holdWhileDown stops the intake while the store is down: a message waits here
// until another one got through, instead of being delivered again and again.
func (h *Handlers) holdWhileDown(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		if !h.hold.wait(h.stopping) {
			return nil, fmt.Errorf("stopped before the store was back: %w", h.stopping.Err())
		}
		produced, err := next(msg)
		switch {
		case err == nil && deliveryOf(msg).over != nil:
			h.hold.pass()
		case err == nil || isInvalid(err):
			h.hold.up()
		case errors.Is(err, timer.ErrFatal):
			h.hold.trip()
			select {
			case h.fatal <- err:
			default:
			}
		default:
			h.hold.trip()
		}
		return produced, err
	}
}
