package admin

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/danielgtaylor/huma/v2"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/timer"
)

const publishTimeout = 5 * time.Second

// Actions are all that people change, by the API and on pages. Each checks who asks,
// and lands in the audit log. An error is a [huma.StatusError] or one that
// [api.problem] knows; its text is for people.
type actions struct {
	timers   timer.Reader
	broker   broker.Broker  // nil: there is none, and what needs it is refused
	operator timer.Operator // nil alike
	service  Service        // nil alike
	audit    *audit
	log      *slog.Logger
	stopping chan struct{} // closed when the server stops; nil: it does not
	visits   chan struct{} // holds one for each visit to dead letters
	visitors sync.Map      // tenants whose token visits
}

func newActions(log *slog.Logger, opt Options) *actions {
	return &actions{
		timers: opt.Timers, broker: opt.Broker, operator: opt.Operator, service: opt.Service,
		audit: &audit{log: log}, log: log, visits: make(chan struct{}, maxVisits),
	}
}

// allow returns an error unless who asks may change what belongs to a tenant, or, if
// that is empty, to none.
func (a *actions) allow(ctx context.Context, tenant timer.TenantID) error {
	who, rule := accessOf(ctx), tenantToken
	if who.readOnly {
		return errReadOnly
	}
	if tenant == "" {
		rule = adminToken
	}
	if err := rule.check(who, string(tenant)); err != nil {
		return err
	}
	return nil
}

// do does what people ask for, if they may, and notes it.
func (a *actions) do(ctx context.Context, what string, tenant timer.TenantID, target string, do func() (result string, err error)) error {
	err := a.allow(ctx, tenant)
	result := ""
	if err == nil {
		result, err = do()
	}
	a.audit.add(ctx, what, target, result, err)
	return err
}

// A sent is a command on its way.
type sent struct {
	Command
	message *message.Message
	done    string // the result once it took effect
	outcome func(timer.Entry, timer.Version) timer.Outcome
}

func (s sent) key() timer.Key { return timer.Key{TenantID: s.TenantID, ServiceCallID: s.ServiceCallID} }

// send publishes a command, if who asks may. It is not in the audit log: programs send
// very many.
func (a *actions) send(ctx context.Context, s sent) error {
	if err := a.allow(ctx, s.TenantID); err != nil {
		return err
	}
	if a.broker == nil {
		return errNoBroker
	}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	topic := a.broker.Routing().CommandsOf(s.TenantID)
	if err := a.broker.Publisher().Publish(ctx, broker.Message{Topic: topic, Message: s.message})[0]; err != nil {
		return a.brokerFailed(ctx, err)
	}
	return nil
}

// brokerFailed is the problem that the broker did not take a command.
func (a *actions) brokerFailed(ctx context.Context, err error) error {
	a.log.WarnContext(ctx, "a command of a request was not published", "error", err)
	if errors.Is(err, broker.ErrRefused) {
		return huma.Error422UnprocessableEntity("the broker refuses the command")
	}
	return huma.Error503ServiceUnavailable("the broker did not answer, but it may have the command: see /readyz?verbose, and try again")
}

// cancel publishes a CancelTimer for a person, and returns its id. Nothing is published
// if the timer has fired or there is none: the command of a page would have no effect, or
// leave a tombstone.
func (a *actions) cancel(ctx context.Context, key timer.Key) (commandID string, err error) {
	s, err := newCancel(key, "", timer.Trace{})
	if err != nil {
		return "", err
	}
	return s.ID, a.do(ctx, "cancel timer", key.TenantID, key.String(), func() (string, error) {
		if a.broker == nil {
			return "", errNoBroker
		}
		if err := a.canCancel(ctx, key); err != nil {
			return "", err
		}
		return "command " + s.ID, a.send(ctx, s)
	})
}

// canCancel returns why there is no timer to cancel, or nil.
func (a *actions) canCancel(ctx context.Context, key timer.Key) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	e, err := a.timers.Get(ctx, key)
	switch {
	case errors.Is(err, timer.ErrNotFound):
		return huma.Error404NotFound("there is no such timer")
	case err == nil && e.State == timer.Reached:
		return huma.Error409Conflict("it fired at " + stamp(e.ReachedAt))
	}
	return err
}

// newCancel returns a CancelTimer that is to be sent.
func newCancel(key timer.Key, correlationID string, trace timer.Trace) (sent, error) {
	c := timer.CancelTimer{Key: key, Version: client.NewVersion(time.Now()), CorrelationID: correlationID, Trace: trace}
	s := sent{
		Command: Command{ID: c.CommandID, TenantID: c.TenantID, ServiceCallID: c.ServiceCallID, TimestampMS: c.TimestampMS, CorrelationID: c.CorrelationID},
		done:    timer.DidCancel.String(), outcome: timer.Entry.CancelOutcome,
	}
	var err error
	s.message, err = client.Marshaler{}.Marshal(c)
	return s, err
}

// What is refused.
var (
	errReadOnly        = huma.Error403Forbidden("this service answers reads only: http_read_only is set")
	errNoBroker        = huma.Error503ServiceUnavailable("this needs a broker, and there is none")
	errManyDeadLetters = huma.Error503ServiceUnavailable("too many dead letters to read up to this page: replay or discard the oldest first")
	errNoDeadLetter    = huma.Error404NotFound("there is no such dead letter")
	errVisiting        = huma.Error429TooManyRequests("another request of your tenant reads dead letters already: try again when it has ended")
	errOtherTenant     = huma.Error404NotFound("there is nothing of this tenant that your token may see")
	errOneTenant       = huma.Error403Forbidden("your token is for one tenant, and this concerns all: it needs http_token")
)
