package admin

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/danielgtaylor/huma/v2"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/option"
	"github.com/event-service-agent/timer-service/timer"
)

const publishTimeout = 5 * time.Second

// Actions are what the API and the pages have in common: the questions that both ask, and all
// changes that people make. Each change checks the access of the request and writes to the audit
// log. An error is a [huma.StatusError] or one that [explain] knows; its text is for people.
type actions struct {
	Options
	audit    *audit
	log      *slog.Logger
	stopping chan struct{} // closed when the server stops
	visits   shares        // requests that read dead letters: each reads all of a tenant
	streams  shares        // connections that listen
}

func newActions(log *slog.Logger, opt Options) *actions {
	opt.MaxClockAhead = option.Positive(opt.MaxClockAhead, 24*time.Hour)
	return &actions{
		Options: opt, audit: &audit{log: log}, log: log, stopping: make(chan struct{}),
		visits:  shares{most: 8, mostOfTenant: 1, full: errAllVisit, fullOfTenant: errTenantVisits},
		streams: shares{most: 50, mostOfTenant: 10, full: errAllListen, fullOfTenant: errTenantListens},
	}
}

// allow returns an error unless the request may change the data of a tenant, or, if tenant is
// empty, of all tenants.
func (a *actions) allow(ctx context.Context, tenant timer.TenantID) error {
	who, rule := accessOf(ctx), tenantToken
	if err := who.mayChange(); err != nil {
		return err
	}
	if tenant == "" {
		rule = adminToken
	}
	return rule.check(who, string(tenant))
}

// do runs a change if the request may make it, and adds it to the audit log if it has a name.
func (a *actions) do(ctx context.Context, what string, tenant timer.TenantID, target string, do func() (result string, err error)) error {
	err := a.allow(ctx, tenant)
	result := ""
	if err == nil {
		result, err = do()
	}
	if what != "" {
		a.audit.add(ctx, what, target, result, err)
	}
	return err
}

// A pendingCommand is a command to be published.
type pendingCommand struct {
	Command
	message *message.Message
	before  timer.Entry // the timer when the command was made; the zero Entry if there was none
	done    string      // the result once the command took effect
	outcome func(timer.Entry, timer.Version) timer.Outcome
}

func (s pendingCommand) key() timer.Key {
	return timer.Key{TenantID: s.TenantID, ServiceCallID: s.ServiceCallID}
}

// judge reports whether the command took effect on a timer. If the command can have no effect
// any more, the error says why.
func (s pendingCommand) judge(e timer.Entry) (took bool, err error) {
	switch o := s.outcome(e, timer.Version{TimestampMS: s.TimestampMS, CommandID: s.ID}); o {
	case timer.WasStale, timer.WasReached, timer.WasExpired:
		return false, conflict(http.StatusConflict, o.String(), s.ineffective(o, e))
	default:
		return o != 0, nil
	}
}

// ineffective says why the command has no effect on a timer.
func (s pendingCommand) ineffective(o timer.Outcome, e timer.Entry) string {
	already := "already " + strings.ToLower(string(e.State)) + " at " + stamp(e.ReachedAt)
	switch {
	case o != timer.WasStale && s.done == timer.DidSchedule.String():
		return already + ": use a new call id"
	case o != timer.WasStale:
		return already
	case e.State == timer.Canceled:
		return "a newer command canceled it at " + stamp(e.CanceledAt)
	}
	return "a newer command set it to " + stamp(e.DueAt)
}

// latest returns the timer of a key, or the zero Entry if there is none. The version that it
// returns is of now, but newer than the one of the timer, because the clock that made that
// one may be ahead.
func (a *actions) latest(ctx context.Context, key timer.Key) (timer.Entry, timer.Version, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	now := time.Now()
	v := client.NewVersion(now)
	e, err := a.Timers.Get(ctx, key)
	if errors.Is(err, timer.ErrNotFound) {
		return timer.Entry{}, v, nil
	}
	if err == nil {
		v.TimestampMS, err = a.after(now, v.TimestampMS, e.TimestampMS, "this timer")
	}
	return e, v, err
}

// after returns a time for a command that is newer than the newest command of some timers. If
// the service would not accept that time, the error says so.
func (a *actions) after(now time.Time, ms, newest int64, of string) (int64, error) {
	if ms = max(ms, newest+1); ms > now.Add(a.MaxClockAhead).UnixMilli() {
		return ms, conflict(http.StatusConflict, timer.WasStale.String(), "the newest command of "+of+" is of "+stamp(time.UnixMilli(newest))+
			", which is further ahead of the clock than max_clock_ahead: no command can replace it before")
	}
	return ms, nil
}

// send publishes a command, if the request may send it and it can have an effect. Commands
// are not in the audit log, because programs send very many.
func (a *actions) send(ctx context.Context, s pendingCommand) error {
	if err := a.allow(ctx, s.TenantID); err != nil {
		return err
	}
	if _, err := s.judge(s.before); err != nil {
		return err
	}
	return a.command(ctx, s.message)
}

// command publishes a command.
func (a *actions) command(ctx context.Context, m *message.Message) error {
	return a.publish(ctx, publishTimeout, m)[0]
}

// publish publishes the commands of a request, or applies them if there is no broker. A command
// that would become a dead letter is refused. It returns one result for each, a problem for
// people, and logs the first other error.
func (a *actions) publish(ctx context.Context, timeout time.Duration, commands ...*message.Message) []error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	results, silent := make([]error, len(commands)), errNoAnswer
	switch {
	case a.Broker != nil:
		var messages []broker.Message
		var of []int // their places in commands
		for i, m := range commands {
			if a.Service != nil {
				results[i] = a.Service.Validate(m)
			}
			if results[i] == nil {
				messages = append(messages, broker.Message{Topic: a.Broker.Routing().CommandsOf(timer.TenantID(m.Metadata.Get(envelope.HeaderTenantID))), Message: m})
				of = append(of, i)
			}
		}
		for i, err := range a.Broker.Publisher().Publish(ctx, messages...) {
			results[of[i]] = err
		}
	case a.Apply != nil:
		silent = errNotApplied
		for i, m := range commands {
			results[i] = a.Apply(ctx, m)
		}
	default:
		return broker.All(len(commands), errNoBroker)
	}
	if i := slices.IndexFunc(results, func(err error) bool { return err != nil && !isInvalid(err) }); i >= 0 {
		a.log.WarnContext(ctx, "a command of a request was not published", "error", results[i])
	}
	for i, err := range results {
		switch {
		case err == nil || explain(err) != nil:
		case errors.Is(err, broker.ErrRefused):
			results[i] = errRefused
		default:
			results[i] = silent
		}
	}
	return results
}

// isInvalid reports whether the command itself is invalid, not only refused by the broker.
func isInvalid(err error) bool {
	_, is := errors.AsType[*timer.InvalidError](err)
	return is
}

// noDeadLetter says that there is no dead letter with an id.
func noDeadLetter(id string) error {
	return huma.Error404NotFound("there is no such dead letter: " + timer.Quote(id))
}

// These are refusals.
var (
	errReadOnly        = huma.Error403Forbidden("this service answers reads only: http_read_only is set")
	errReadToken       = huma.Error403Forbidden("your token is to read only: it has the role read")
	errMetricsToken    = huma.Error403Forbidden("your token is for /metrics alone: it has the role metrics")
	errNoBroker        = huma.Error503ServiceUnavailable("this needs a broker, and there is none")
	errBrokerSilent    = huma.Error503ServiceUnavailable("the broker did not answer in time: see /readyz?verbose, and try again")
	errNoAnswer        = huma.Error503ServiceUnavailable("the broker did not answer, but it may have the command: see /readyz?verbose, and try again")
	errNotApplied      = huma.Error503ServiceUnavailable("the database did not answer, but it may have the command: see /readyz?verbose, and try again")
	errRefused         = huma.Error422UnprocessableEntity("the broker refuses it: see the log of the service")
	errNoReceipts      = huma.Error422UnprocessableEntity("there are no receipts: set receipts (TIMER_RECEIPTS=true) for the service")
	errManyDeadLetters = huma.Error503ServiceUnavailable("too many dead letters to read up to this page: replay or discard the oldest first")
	errTenantVisits    = huma.Error429TooManyRequests("another request of your tenant reads dead letters already: try again when it has ended")
	errAllVisit        = huma.Error503ServiceUnavailable("too many requests read dead letters already: try again when one has ended")
	errTenantListens   = huma.Error429TooManyRequests("10 connections of your tenant listen already: end one first")
	errAllListen       = huma.Error503ServiceUnavailable("too many connections listen already: try again later")
	errOtherTenant     = huma.Error404NotFound("there is nothing of this tenant that your token may see")
	errOneTenant       = huma.Error403Forbidden("your token is for one tenant, and this is for operators: it needs http_token")
)
