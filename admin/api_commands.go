package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
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
	outcomeInterval = 50 * time.Millisecond // between two polls for the outcome of a command
	maxCommand      = 16 << 10              // bytes of the body of a request
)

// A Command is a command that was published.
type Command struct {
	ID            string              `json:"id" doc:"Id of the command. A timer has it as commandId once the command took effect."`
	Result        string              `json:"result" enum:"published,scheduled,canceled" doc:"published: the broker has stored the command. The others, with wait: it took effect."`
	TenantID      timer.TenantID      `json:"tenantId"`
	ServiceCallID timer.ServiceCallID `json:"serviceCallId"`
	TimestampMS   int64               `json:"timestampMs"`
	CorrelationID string              `json:"correlationId,omitempty"`
	DueAt         string              `json:"dueAt,omitempty" format:"date-time"`
	Before        *Timer              `json:"before,omitempty" doc:"Of a cancellation: the timer before, without its data; none if there was none."`
}

// A Conflict is the problem of a command that has no effect.
type Conflict struct {
	*huma.ErrorModel
	Reason string `json:"reason" doc:"Of a command: stale, already_reached, already_expired, or the reason of the dead letter that it is, or would be."`
	ID     string `json:"id,omitempty" doc:"Of the command, if it was published."`
}

// A TimerRequest is the body of a request that schedules a timer.
type TimerRequest struct {
	DueAt         string          `json:"dueAt,omitempty" format:"date-time" doc:"When it is due: RFC 3339 with a zone. A time in the past is due at once."`
	In            string          `json:"in,omitempty" doc:"How long from now it is due, instead of dueAt." example:"90m"`
	ExpiresAt     string          `json:"expiresAt,omitempty" format:"date-time" doc:"From when on it must not fire any more, as after an outage: then its event is a TimerExpired. After dueAt. Default: as the quotas of the tenant say, or never."`
	ExpiresIn     string          `json:"expiresIn,omitempty" doc:"How long from now that is, instead of expiresAt." example:"2h"`
	CorrelationID string          `json:"correlationId,omitempty" maxLength:"128"`
	Data          json.RawMessage `json:"data,omitempty" doc:"Any JSON value of at most 4 KiB, which the event will carry."`
	TimestampMS   *int64          `json:"timestampMs,omitempty" minimum:"0" doc:"Time of the command, by which the newest one wins. Default: now."`
}

// A CommandQuery has the parameters that all commands share.
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

func (a *api) schedule(ctx context.Context, in *scheduleInput) (*commandOutput, error) {
	due, expires, err := in.Body.times(a.now())
	if err != nil {
		return nil, err
	}
	before, version, err := a.latest(ctx, in.key())
	if err != nil {
		return nil, err
	}
	if in.Body.TimestampMS != nil {
		version.TimestampMS = *in.Body.TimestampMS
	}
	c := timer.ScheduleTimer{Key: in.key(), Version: version, DueAt: due, ExpiresAt: expires, CorrelationID: in.Body.CorrelationID, Data: string(in.Body.Data), Trace: in.trace()}
	s := pendingCommand{
		Command: Command{ID: c.CommandID, TenantID: c.TenantID, ServiceCallID: c.ServiceCallID, TimestampMS: c.TimestampMS, CorrelationID: c.CorrelationID, DueAt: stamp(c.DueAt)},
		before:  before, done: timer.DidSchedule.String(), outcome: timer.Entry.ScheduleOutcome,
	}
	if s.message, err = client.Message(c); err != nil {
		return nil, err
	}
	switch {
	case in.IfNoneMatch != "" && in.IfNoneMatch != "*":
		return nil, huma.Error422UnprocessableEntity("If-None-Match must be *: timers have no ETag")
	case in.IfNoneMatch != "" && before.State != "":
		return nil, huma.Error412PreconditionFailed(fmt.Sprintf("there is such a timer: it is %s", before.State))
	}
	return a.publish(ctx, s, in.Wait)
}

func (a *api) cancel(ctx context.Context, in *cancelInput) (*commandOutput, error) {
	before, version, err := a.latest(ctx, in.key())
	if err != nil {
		return nil, err
	}
	c := timer.CancelTimer{Key: in.key(), Version: version, CorrelationID: in.CorrelationID, Trace: in.trace()}
	s := pendingCommand{
		Command: Command{ID: c.CommandID, TenantID: c.TenantID, ServiceCallID: c.ServiceCallID, TimestampMS: c.TimestampMS, CorrelationID: c.CorrelationID},
		before:  before, done: timer.DidCancel.String(), outcome: timer.Entry.CancelOutcome,
	}
	if s.message, err = client.Message(c); err != nil {
		return nil, err
	}
	if before.State != "" {
		s.Before = new(DataQuery{}.show(before))
	}
	return a.publish(ctx, s, in.Wait)
}

// times returns when the timer is due, and from when on it must not fire.
func (r TimerRequest) times(now time.Time) (due, expires time.Time, err error) {
	if r.DueAt+r.In == "" {
		return due, expires, timer.Invalid(timer.ReasonMissingField, "give dueAt or in, and not both")
	}
	if due, err = eitherTime(now, "dueAt", r.DueAt, "in", r.In); err == nil {
		expires, err = eitherTime(now, "expiresAt", r.ExpiresAt, "expiresIn", r.ExpiresIn)
	}
	return due, expires, err
}

// eitherTime returns the time that one of two fields gives, the second as a duration from
// now, or zero if both are empty.
func eitherTime(now time.Time, atField, at, inField, in string) (time.Time, error) {
	switch {
	case at != "" && in != "":
		return time.Time{}, timer.Invalid(timer.ReasonMissingField, "give %s or %s, and not both", atField, inField)
	case at != "":
		return envelope.ParseTimeOf(atField, at)
	case in == "":
		return time.Time{}, nil
	}
	d, err := config.ParseWithUnit(in)
	if err != nil || d < 0 {
		return time.Time{}, timer.Invalid(timer.ReasonBadField, "%s must be a duration with a unit, such as 90s, 1h or 7d, and not negative; 0 is now", inField)
	}
	return timer.RoundUp(now.Add(d)), nil
}

// publish publishes a command, and waits until it took effect if the request asks for that.
func (a *api) publish(ctx context.Context, s pendingCommand, wait string) (*commandOutput, error) {
	timeout, err := parseWait(wait)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var refused <-chan *message.Message
	if timeout > 0 && a.Broker != nil {
		messages, closeTail, err := a.tail(ctx, a.Broker.Routing().DeadLettersOf(s.TenantID))
		if err != nil {
			return nil, err
		}
		defer closeTail()
		refused = messages
	}
	if err := a.send(ctx, s); err != nil {
		return nil, err
	}
	if a.Broker == nil { // it was applied, a cancellation with a version of its own
		if e, err := a.Timers.Get(ctx, s.key()); err == nil {
			s.ID, s.TimestampMS = e.CommandID, e.TimestampMS
		}
		s.Result = s.done
		return &commandOutput{http.StatusOK, s.Command}, nil
	}
	s.Result = "published"
	if timeout == 0 {
		return &commandOutput{http.StatusAccepted, s.Command}, nil
	}
	return a.await(ctx, s, timeout, refused)
}

// parseWait returns how long to wait, or 0 for no wait.
func parseWait(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := config.ParseWithUnit(text)
	if err != nil || d <= 0 || d > maxWait {
		return 0, timer.Invalid(timer.ReasonBadField, "wait must be a duration with a unit, such as 5s, of at most %s", config.FormatDuration(maxWait))
	}
	return d, nil
}

// await answers when the command took effect, or was found to have no effect. After the
// timeout it answers that the command was published.
func (a *api) await(ctx context.Context, s pendingCommand, timeout time.Duration, refused <-chan *message.Message) (*commandOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		entry, err := a.Timers.Get(ctx, s.key())
		if err == nil { // an error: it was not handled yet, or the database is busy
			switch took, err := s.judge(entry); {
			case err != nil:
				return nil, err
			case took:
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
				refused := conflict(http.StatusUnprocessableEntity, m.Metadata.Get(envelope.HeaderDeadLetterReason), "refused: "+m.Metadata.Get(envelope.HeaderDeadLetterDetail))
				refused.ID = s.ID
				return nil, refused
			}
		default:
			if !pause.For(ctx, outcomeInterval) {
				return &commandOutput{http.StatusAccepted, s.Command}, nil
			}
		}
	}
}

func conflict(status int, reason, detail string) *Conflict {
	return &Conflict{ErrorModel: &huma.ErrorModel{Status: status, Title: http.StatusText(status), Detail: detail}, Reason: reason}
}
