package handlers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/event-service-agent/timer-service/internal/digest"
	"github.com/event-service-agent/timer-service/internal/retry"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// router builds the Watermill router.
func (h *Handlers) router() (*message.Router, error) {
	router, err := message.NewRouter(message.RouterConfig{
		CloseTimeout: closeTimeout,
	}, routerLog{
		watermill.NewSlogLoggerWithLevelMapping(h.log, map[slog.Level]slog.Level{slog.LevelInfo: slog.LevelDebug}), h.failed,
	})
	if err != nil {
		return nil, fmt.Errorf("build the router: %w", err)
	}
	poison, err := middleware.PoisonQueueWithFilter(h.dead, poisonTopic, isInvalid)
	if err != nil {
		return nil, fmt.Errorf("build the poison queue: %w", err)
	}
	// The outermost middleware comes first. A message is decoded once, outside Retry, because
	// another try can't make it valid. The middleware inside Retry uses the store, so another
	// try may succeed.
	router.AddMiddleware(h.begin)
	router.AddMiddleware(h.opt.Middleware...)
	router.AddMiddleware(middleware.CorrelationID, h.receive, poison, h.refuse, h.retry, h.breakCircuit, h.recoverer)
	if len(h.opt.Middleware) == 0 { // a host's middleware may change a message, so receive decodes it after that
		router.AddSubscriberDecorators(h.decodeEarly)
	}
	apply := func(msg *message.Message) ([]*message.Message, error) { return nil, h.apply(receivedOf(msg)) }
	router.AddHandler(h.opt.Name, h.routing.Subscription(), h.sub, "", closingPublisher{h, h.unsubscribed}, apply)
	router.AddHandler(h.opt.Name+" inbox", h.routing.Subscription(), h.inbox, "", closingPublisher{h, nil}, apply)
	return router, nil
}

// A drainContext ends DrainTimeout after the stop, and has the values of a message's own
// context. The router cancels the contexts of messages in flight at once, which would abort
// healthy transactions.
type drainContext struct {
	context.Context
	values context.Context
}

// Value returns the value of the message's own context.
func (w drainContext) Value(key any) any { return w.values.Value(key) }

// end notifies [closingPublisher] when no handler is running.
func (h *Handlers) end() {
	if h.atWork.Add(-1) == 0 {
		h.notifyIdle()
	}
}

func (h *Handlers) notifyIdle() {
	select {
	case h.idle <- struct{}{}:
	default:
	}
}

// decodeEarly decodes messages in the goroutine of their subscription. The router has a
// goroutine for each message, and decoding there would make its stack grow, which took a
// tenth of the CPU time of an intake (measured 2026-11).
func (h *Handlers) decodeEarly(sub message.Subscriber) (message.Subscriber, error) {
	return message.MessageTransformSubscriberDecorator(func(msg *message.Message) { h.read(h.newDelivery(msg)) })(sub)
}

// newDelivery makes the delivery of a message.
func (h *Handlers) newDelivery(msg *message.Message) *receivedMessage {
	d := &receivedMessage{ctx: msg.Context(), msg: msg, store: h.store, row: rowOf(msg)}
	msg.SetContext(context.WithValue(msg.Context(), messageKey{}, d))
	return d
}

// receive decodes a message, unless decodeEarly has done so, and reports the outcome when its
// handling has ended. A host's middleware may call it more than once.
func (h *Handlers) receive(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) (_ []*message.Message, err error) {
		d := receivedOf(msg)
		if d == nil {
			d = h.newDelivery(msg)
		}
		if len(h.opt.Middleware) > 0 {
			*d = receivedMessage{msg: msg, store: h.store, row: d.row}
			h.read(d)
		}
		d.ctx = msg.Context()
		if h.opt.Trace != nil {
			end := h.trace(d)
			defer func() { end(d.handled(err)) }()
			msg.SetContext(d.ctx)
		}
		_, err = next(msg)
		h.count(d, err)
		return nil, err
	}
}

// errBehind is the error of a command that may be valid once the clock is right.
var errBehind = errors.New("the command is far in the future of a clock that is behind")

// refuse returns the error of an invalid message, which the poison queue around it makes a
// dead letter. It ends the handling of an ignored message, and of one that exceeds a quota.
func (h *Handlers) refuse(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) (_ []*message.Message, err error) {
		d := receivedOf(msg)
		switch {
		case h.isEarly(d):
			d.invalid = nil
			return nil, errBehind
		case d.invalid == nil && d.row != nil && h.waitedTooLong(d.row.InboxMessage):
			d.invalid = tooLong(d.row.InboxMessage)
		}
		if d.invalid != nil || d.result.Outcome == OutcomeIgnored {
			return nil, d.invalid
		}
		if _, err = next(msg); err == nil && d.exceeded != nil {
			err = h.limit(d)
		}
		if isInvalid(err) {
			d.invalid = err
		}
		return nil, err
	}
}

// closeTimeout is how long the router waits for handlers when it closes. [closingPublisher] has waited
// for them before.
const closeTimeout = 1250 * time.Millisecond

// A closingPublisher publishes nothing. The router closes it when the subscription
// has ended, before the router closes itself.
//
// The router waits for its handlers, too (Watermill v1.5.1), but holds a lock that another of
// its goroutines may want at that time. A goroutine that waits for a lock stops the time of a
// testing/synctest bubble, where a handler that waits for its next try then waits forever.
type closingPublisher struct {
	h     *Handlers
	ended chan<- struct{} // closed when the subscription has ended; may be nil
}

// Publish is not called.
func (closingPublisher) Publish(string, ...*message.Message) error {
	return errors.New("handlers publish nothing")
}

// Close waits until no handler is running, or DrainTimeout has passed.
func (a closingPublisher) Close() error {
	if a.ended != nil {
		close(a.ended)
	}
	defer a.h.notifyIdle() // the other subscription waits, too
	late := time.NewTimer(a.h.opt.DrainTimeout)
	defer late.Stop()
	for a.h.atWork.Load() > 0 {
		select {
		case <-a.h.idle:
		case <-a.h.working.Done():
			return nil
		case <-late.C:
			return nil
		}
	}
	return nil
}

func isInvalid(err error) bool { return errors.Is(err, timer.ErrInvalid) }

// count reports the outcome of a delivery.
func (h *Handlers) count(d *receivedMessage, err error) {
	switch {
	case err != nil:
		d.result.Outcome = OutcomeFailed
	case d.invalid != nil:
		d.result.Outcome = OutcomeInvalid
	case d.exceeded != nil:
		d.result.Outcome = OutcomeOverQuota
	case len(d.results) == 0:
		d.result.Outcome = cmp.Or(d.result.Outcome, OutcomeNone)
	}
	d.result.Type = cmp.Or(d.result.Type, "other")
	if watch := h.opt.Watch(); watch != nil {
		d.decisions(watch)
	}
	if len(d.results) > 0 && h.log.Enabled(d.ctx, slog.LevelDebug) {
		d.decisions(func(c Decision) {
			h.log.DebugContext(timer.WithTrace(d.ctx, d.trace()), "command handled", "type", c.Type, "outcome", c.Outcome, "tenant_id", c.TenantID,
				"service_call_id", c.ServiceCallID, "correlation_id", c.CorrelationID, "message_id", c.ID)
		})
	}
	if d.result.Outcome != "" {
		h.opt.Handled(d.result)
		return
	}
	for _, r := range d.results {
		d.result.Outcome = r.Outcome.String()
		h.opt.Handled(d.result)
	}
}

// retry tries a failed message again, with Watermill's Retry, which costs nothing while
// nothing fails. The last try does not share a commit, nor does any try while another
// transaction holds the timer. While that lasts, or while the store itself fails, the message
// is tried again here and not left to the broker, because the broker would deliver it too
// late.
func (h *Handlers) retry(next message.HandlerFunc) message.HandlerFunc {
	again := middleware.Retry{
		MaxRetries:          retry.MaxTries - 1,
		InitialInterval:     retry.Handler.First,
		Multiplier:          float64(retry.Handler.Factor),
		MaxInterval:         retry.Handler.Longest,
		RandomizationFactor: retry.Handler.Jitter,
		ResetContextOnRetry: true,
	}
	return func(msg *message.Message) ([]*message.Message, error) {
		d := receivedOf(msg)
		_, err := next(msg)
		for err != nil && !isInvalid(err) && !errors.Is(err, timer.ErrFatal) {
			tries := 0
			_, err = again.Middleware(func(msg *message.Message) ([]*message.Message, error) {
				if tries++; tries == 1 {
					return nil, err
				}
				if tries == retry.MaxTries || errors.Is(err, timer.ErrLocked) {
					d.store = h.opt.Unbatched
				}
				return next(msg)
			})(msg)
			locked := errors.Is(err, timer.ErrLocked) && h.stopping.Err() == nil
			if !locked && h.storeWorks(d.ctx) {
				break
			}
		}
		return nil, err
	}
}

// recoverer returns a panic as an error, without the stack that Watermill's Recoverer adds to
// it.
func (h *Handlers) recoverer(next message.HandlerFunc) message.HandlerFunc {
	recovered := middleware.Recoverer(next)
	return func(msg *message.Message) ([]*message.Message, error) {
		_, err := recovered(msg)
		if p, ok := errors.AsType[middleware.RecoveredPanicError](err); ok {
			h.log.DebugContext(msg.Context(), "a handler panicked", "panic", p.V, "stack", p.Stacktrace)
			err = fmt.Errorf("panic: %v", p.V)
		}
		return nil, err
	}
}

// storeTimeout is the longest time that the store may take to answer whether it works.
const storeTimeout = 5 * time.Second

// storeWorks reports whether a failed message should be tried no more, because the store works
// or the handlers stop.
func (h *Handlers) storeWorks(ctx context.Context) bool {
	if h.opt.StoreWorks == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return h.opt.StoreWorks(ctx) == nil || h.stopping.Err() != nil
}

// A routerLog is the log of the router. It logs starts and stops of the router's parts at the
// level debug.
type routerLog struct {
	watermill.LoggerAdapter
	failed *digest.Digest
}

// Error notes a failure, which is retried: while dead letters can't be published, there may be
// thousands. At the level debug it logs each, with the stack of a panic that the router
// recovers or of an error of Watermill.
func (l routerLog) Error(msg string, err error, fields watermill.LogFields) {
	msg, stack, _ := strings.Cut(msg, " Stack: ")
	l.failed.Note(1, []any{"failure", msg}, "first_error", err.Error(), "first_message_uuid", fields["message_uuid"])
	l.Debug(msg, fields.Add(watermill.LogFields{"stack": fmt.Sprintf("%s%+v", stack, err)}))
}

// With returns a log whose lines at the level debug have fields.
func (l routerLog) With(fields watermill.LogFields) watermill.LoggerAdapter {
	return routerLog{l.LoggerAdapter.With(fields), l.failed}
}

// allow records the limit that the commands of a delivery exceed, if they exceed one. That is
// not an error, because the store works.
func (h *Handlers) allow(d *receivedMessage) (err error) {
	d.known = false
	turn := quota.Fresh
	switch {
	case d.row != nil:
		turn = quota.Again
	case h.inbox.isClosed(d.schedules[0].TenantID):
		turn = quota.Behind
	}
	d.exceeded, err = h.opt.Quotas.Allow(d.ctx, h.opt.Timers, turn, d.schedules...)
	if err == nil && d.exceeded != nil && h.refuses(d) {
		if d.known, err = h.opt.Quotas.Known(d.ctx, h.opt.Timers, d.schedules...); d.known {
			d.exceeded = nil
		}
	}
	if d.row != nil && d.exceeded == nil {
		d.row.allowed()
	}
	return err
}

// limit handles a message that exceeds a quota. It returns no error if [Handlers.begin] is to
// put it into the inbox. By the tenant's policy, or if the inbox takes no more of the tenant,
// the message is invalid instead.
func (h *Handlers) limit(d *receivedMessage) error {
	e := d.exceeded
	tenant := d.schedules[0].TenantID
	if e.First {
		h.log.WarnContext(d.ctx, "a tenant exceeds its quota", "tenant_id", tenant, "policy", e.Rule, "detail", e.Detail)
	}
	switch {
	case e.Policy == quota.DeadLetter:
		return timer.Invalid(timer.ReasonOverQuota, "%s", e.Detail)
	case h.refuses(d):
		return timer.Invalid(timer.ReasonOverQuota, "%s; no more of its messages may wait", e.Detail)
	}
	return nil
}

// refuses reports whether a message that exceeds a quota becomes a dead letter. One whose commands
// the store has must not: it was accepted, and is delivered again. A recovery would leave it out.
func (h *Handlers) refuses(d *receivedMessage) bool {
	return d.exceeded.Policy == quota.DeadLetter || d.row == nil && h.inbox.isFull(d.schedules[0].TenantID, int64(len(d.msg.Payload)))
}
