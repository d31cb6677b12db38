package admin

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// A ParkedEvent is a parked event in an answer.
type ParkedEvent struct {
	Seq           int64               `json:"seq" doc:"Its number."`
	ID            string              `json:"id" doc:"Of the event."`
	TenantID      timer.TenantID      `json:"tenantId"`
	ServiceCallID timer.ServiceCallID `json:"serviceCallId"`
	CorrelationID string              `json:"correlationId,omitempty"`
	AppendedAt    string              `json:"appendedAt" format:"date-time" doc:"When its timer fired."`
	ParkedAt      string              `json:"parkedAt" format:"date-time"`
	Attempts      int                 `json:"attempts" doc:"Publishes that failed."`
	Reason        string              `json:"reason" doc:"Of the last failure."`
	Body
}

// ParkedEvents are a page of parked events.
type ParkedEvents struct {
	Parked []ParkedEvent `json:"parked" nullable:"false"`
	Next   string        `json:"next,omitempty" doc:"Where the next page begins: send it as after. None after the last page. A page may be short."`
}

func showParked(e timer.ParkedEvent, withBody bool) ParkedEvent {
	shown := ParkedEvent{
		Seq: e.Seq, ID: e.ID, TenantID: e.TenantID, ServiceCallID: e.ServiceCallID, CorrelationID: e.CorrelationID,
		AppendedAt: stamp(e.AppendedAt), ParkedAt: stamp(e.ParkedAt), Attempts: e.Attempts, Reason: e.Reason,
	}
	if withBody {
		shown.Body = showBody(e.Body)
	}
	return shown
}

// A ParkedQuery selects parked events.
type ParkedQuery struct {
	TenantQuery
	Reason        string `query:"reason" maxLength:"256" doc:"Only events whose reason has this text, in upper or lower case." example:"TEXT"`
	Since         Since  `query:"since" doc:"Only events that were parked then or later: RFC 3339 with a zone, or a duration before now." example:"7d"`
	CorrelationID string `query:"correlationId" maxLength:"128" doc:"Only those with this correlation id."`
	Seq           int64  `query:"seq" minimum:"1" example:"17" doc:"Only the one with this number."`
	Limit         int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"The most items of the answer."`
	After         int64  `query:"after" minimum:"0" doc:"Only those before this number: next of the page before."`
}

// selection returns the selection of a query by a clock.
func (q *ParkedQuery) selection(now time.Time) selection {
	s := selection{Tenant: q.Tenant, Reason: q.Reason, Correlation: q.CorrelationID, From: q.Since.At(now)}
	if q.Seq > 0 {
		s.ID = strconv.FormatInt(q.Seq, 10)
	}
	return s
}

// page returns a page of the selected events, and where the next page begins.
func (q *ParkedQuery) page(ctx context.Context, timers timer.Reader, now time.Time) ([]timer.ParkedEvent, string, error) {
	return q.selection(now).parked(ctx, timers, strconv.FormatInt(q.After, 10), q.Limit)
}

// A ChangedEvent is the result for a parked event.
type ChangedEvent struct {
	Result string `json:"result" enum:"retried,discarded"`
	Seq    int64  `json:"seq"`
}

// ChangedEvents are the results for some of the selected events.
type ChangedEvents struct {
	Parked []ChangedEvent `json:"parked" nullable:"false"`
	Next   string         `json:"next,omitempty" doc:"There may be more: ask again, with this as after."`
}

type (
	parkedInput struct {
		ParkedQuery
		Bodies bool `query:"body" doc:"With the bodies of the events."`
	}
	parkedChangeInput struct {
		ParkedQuery
		All bool `query:"all" doc:"All parked events; needed without a selection."`
	}
)

func (a *api) parkedEvents(ctx context.Context, in *parkedInput) (*reply[ParkedEvents], error) {
	page, next, err := in.page(ctx, a.Timers, a.now())
	return &reply[ParkedEvents]{ParkedEvents{all(page, func(e timer.ParkedEvent) ParkedEvent { return showParked(e, in.Bodies) }), next}}, err
}

func (a *api) retryParked(ctx context.Context, in *parkedChangeInput) (*reply[ChangedEvents], error) {
	return a.changeParked(ctx, retryParked, in)
}

func (a *api) discardParked(ctx context.Context, in *parkedChangeInput) (*reply[ChangedEvents], error) {
	return a.changeParked(ctx, discardParked, in)
}

// changeParked changes a page of the selected events, and names the changed ones.
func (a *api) changeParked(ctx context.Context, how parkedChange, in *parkedChangeInput) (*reply[ChangedEvents], error) {
	now := a.now()
	if err := selects(in.selection(now), in.All); err != nil {
		return nil, err
	}
	out := &reply[ChangedEvents]{ChangedEvents{Parked: []ChangedEvent{}}}
	_, seqs, err := a.changeEvents(ctx, how, in.selection(now), func(ctx context.Context) ([]int64, error) {
		page, next, err := in.page(ctx, a.Timers, now)
		out.Body.Next = next
		return all(page, func(e timer.ParkedEvent) int64 { return e.Seq }), err
	})
	for _, seq := range seqs {
		out.Body.Parked = append(out.Body.Parked, ChangedEvent{how.Result, seq})
	}
	if errors.Is(err, errMore) { // the next call has the error, if it lasts
		out.Body.Next, err = strconv.FormatInt(seqs[len(seqs)-1], 10), nil
	}
	return out, err
}
