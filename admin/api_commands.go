package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/danielgtaylor/huma/v2"

	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/timer"
)

const (
	maxWait         = 20 * time.Second
	outcomeInterval = 50 * time.Millisecond // between two reads of what became of a command
	maxCommand      = 16 << 10              // bytes of the body of a request
)

// A Command is one that was published.
type Command struct {
	ID            string              `json:"id" doc:"Id of the command. A timer has it as commandId once the command took effect."`
	Result        string              `json:"result" enum:"published,scheduled,canceled" doc:"published: the broker has stored the command. The others, with wait: it took effect."`
	TenantID      timer.TenantID      `json:"tenantId"`
	ServiceCallID timer.ServiceCallID `json:"serviceCallId"`
	TimestampMS   int64               `json:"timestampMs"`
	CorrelationID string              `json:"correlationId,omitempty"`
	DueAt         string              `json:"dueAt,omitempty" format:"date-time"`
}

// A Conflict is the problem of a command that has no effect.
type Conflict struct {
	*huma.ErrorModel
	Reason string `json:"reason" doc:"Of a command: stale, already_reached, or the reason of the dead letter."`
}

// A TimerRequest is what a timer is to be.
type TimerRequest struct {
	DueAt         string          `json:"dueAt,omitempty" format:"date-time" doc:"When it is due: RFC 3339 with a zone. A time in the past is due at once."`
	In            string          `json:"in,omitempty" doc:"How long from now it is due, instead of dueAt." example:"90m"`
	CorrelationID string          `json:"correlationId,omitempty" maxLength:"128"`
	Data          json.RawMessage `json:"data,omitempty" doc:"Any JSON value of at most 4 KiB, which the event will carry."`
	TimestampMS   *int64          `json:"timestampMs,omitempty" minimum:"0" doc:"Time of the command, by which the newest one wins. Default: now."`
}

// A CommandQuery is what every command may have.
type CommandQuery struct {
	TimerPath
	Wait        string `query:"wait" doc:"How long to wait until the command took effect, at most 20s." example:"5s"`
	TraceParent string `header:"traceparent"`
	TraceState  string `header:"tracestate"`
}

// trace returns the trace context of a request, which its command carries on.
func (q CommandQuery) trace() timer.Trace {
	return envelope.TraceFrom(func(name string) string {
		return map[string]string{envelope.HeaderTraceParent: q.TraceParent, envelope.HeaderTraceState: q.TraceState}[name]
	})
}

type (
	scheduleInput struct {
		CommandQuery
		IfNoneMatch string `header:"If-None-Match" doc:"An asterisk: only if there is no such timer, canceled and fired ones included. Of two requests at the same time both may pass."`
		Body        TimerRequest
	}
	cancelInput struct {
		CommandQuery
		CorrelationID string `query:"correlationId" maxLength:"128"`
	}
	commandOutput struct {
		Status int
		Body   Command
	}
)

func (a *api) addCommands() {
	const path = "/v1/tenants/{tenant}/timers/{call}"
	put := huma.Operation{
		OperationID: "schedule-timer", Method: http.MethodPut, Path: path, Summary: "Publish a ScheduleTimer",
		DefaultStatus: http.StatusAccepted, MaxBodyBytes: maxCommand, SkipValidateBody: true,
		Errors: []int{http.StatusBadRequest, http.StatusPreconditionFailed, http.StatusRequestEntityTooLarge},
	}
	cancel := huma.Operation{
		OperationID: "cancel-timer", Method: http.MethodDelete, Path: path, Summary: "Publish a CancelTimer",
		DefaultStatus: http.StatusAccepted,
	}
	took := &huma.Response{Description: "With wait: it took effect", Content: map[string]*huma.MediaType{
		"application/json": {Schema: a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Command](), true, "Command")},
	}}
	put.Responses, cancel.Responses = map[string]*huma.Response{"200": took}, map[string]*huma.Response{"200": took}
	change(a, put, tenantToken, a.schedule)
	change(a, cancel, tenantToken, a.cancel)
}

func (a *api) schedule(ctx context.Context, in *scheduleInput) (*commandOutput, error) {
	now := time.Now()
	due, err := in.Body.due(now)
	if err != nil {
		return nil, err
	}
	c := timer.ScheduleTimer{
		Key: in.key(), Version: client.NewVersion(now), DueAt: due, CorrelationID: in.Body.CorrelationID, Data: string(in.Body.Data),
		Trace: in.trace(),
	}
	if in.Body.TimestampMS != nil {
		c.TimestampMS = *in.Body.TimestampMS
	}
	s := sent{
		Command: Command{ID: c.CommandID, TenantID: c.TenantID, ServiceCallID: c.ServiceCallID, TimestampMS: c.TimestampMS, CorrelationID: c.CorrelationID, DueAt: stamp(c.DueAt)},
		done:    timer.DidSchedule.String(), outcome: timer.Entry.ScheduleOutcome,
	}
	if s.message, err = (client.Marshaler{}).Marshal(c); err != nil {
		return nil, err
	}
	if err := a.precondition(ctx, s, in.IfNoneMatch); err != nil {
		return nil, err
	}
	return a.publish(ctx, s, in.Wait)
}

func (a *api) cancel(ctx context.Context, in *cancelInput) (*commandOutput, error) {
	s, err := newCancel(in.key(), in.CorrelationID, in.trace())
	if err != nil {
		return nil, err
	}
	return a.publish(ctx, s, in.Wait)
}

// due returns when the timer is due.
func (r TimerRequest) due(now time.Time) (time.Time, error) {
	switch {
	case (r.DueAt == "") == (r.In == ""):
		return time.Time{}, timer.Invalid(timer.ReasonMissingField, "give dueAt or in, and not both")
	case r.DueAt != "":
		return envelope.ParseTime(r.DueAt)
	}
	in, err := config.ParseDuration(r.In)
	if err != nil || in < 0 {
		return time.Time{}, timer.Invalid(timer.ReasonBadField, "in must be a duration such as 90s, 1h or 7d; 0 is due at once")
	}
	return timer.RoundUp(now.Add(in)), nil
}

// precondition refuses a timer that exists, if that was asked for.
func (a *api) precondition(ctx context.Context, s sent, ifNoneMatch string) error {
	if ifNoneMatch == "" {
		return nil
	}
	if ifNoneMatch != "*" {
		return huma.Error422UnprocessableEntity("If-None-Match must be *: timers have no ETag")
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	entry, err := a.timers.Get(ctx, s.key())
	switch {
	case err == nil:
		return huma.Error412PreconditionFailed(fmt.Sprintf("there is such a timer: it is %s", entry.State))
	case errors.Is(err, timer.ErrNotFound):
		return nil
	}
	return err
}

// publish publishes a command, and waits until it took effect if that is asked for.
func (a *api) publish(ctx context.Context, s sent, wait string) (*commandOutput, error) {
	timeout, err := parseWait(wait)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var refused <-chan *message.Message
	if timeout > 0 && a.broker != nil {
		tail := a.broker.Tail()
		defer func() { _ = tail.Close() }() // nothing is lost with it
		if refused, err = tail.Subscribe(ctx, a.broker.Routing().DeadLettersOf(s.TenantID)); err != nil {
			return nil, a.actions.brokerFailed(ctx, err)
		}
	}
	if err := a.actions.send(ctx, s); err != nil {
		return nil, err
	}
	s.Result = "published"
	if timeout == 0 {
		return &commandOutput{http.StatusAccepted, s.Command}, nil
	}
	return a.await(ctx, s, timeout, refused)
}

// parseWait returns how long to wait, 0 for not at all.
func parseWait(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := config.ParseDuration(text)
	if err != nil || d <= 0 || d > maxWait {
		return 0, timer.Invalid(timer.ReasonBadField, "wait must be a duration of at most %s, such as 5s", config.FormatDuration(maxWait))
	}
	return d, nil
}

// await answers when the command took effect, when it has none, or after the timeout
// that it was published.
func (a *api) await(ctx context.Context, s sent, timeout time.Duration, refused <-chan *message.Message) (*commandOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	version := timer.Version{TimestampMS: s.TimestampMS, CommandID: s.ID}
	for {
		entry, err := a.timers.Get(ctx, s.key())
		if err == nil { // else it was not handled yet, or the database is busy
			switch o := s.outcome(entry, version); o {
			case 0:
			case timer.WasStale, timer.WasReached:
				return nil, conflict(http.StatusConflict, o.String(), ineffective(o, entry))
			default:
				s.Result = s.done
				return &commandOutput{http.StatusOK, s.Command}, nil
			}
		}
		select {
		case m, open := <-refused:
			if !open {
				refused = nil
				continue
			}
			m.Ack()
			if m.Metadata.Get(envelope.HeaderDeadLetterOriginalID) == s.ID {
				return nil, conflict(http.StatusUnprocessableEntity, m.Metadata.Get(envelope.HeaderDeadLetterReason), "refused: "+m.Metadata.Get(envelope.HeaderDeadLetterDetail))
			}
		default:
			if !pause.For(ctx, outcomeInterval) {
				return &commandOutput{http.StatusAccepted, s.Command}, nil
			}
		}
	}
}

// ineffective says why a command has no effect.
func ineffective(o timer.Outcome, e timer.Entry) string {
	switch {
	case o == timer.WasReached:
		return "already reached at " + stamp(e.ReachedAt)
	case e.State == timer.Canceled:
		return "a newer command canceled it at " + stamp(e.CanceledAt)
	}
	return "a newer command set it to " + stamp(e.DueAt)
}

func conflict(status int, reason, detail string) error {
	return &Conflict{&huma.ErrorModel{Status: status, Title: http.StatusText(status), Detail: detail}, reason}
}
