package admin

import (
	"context"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

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

func showParked(e timer.ParkedEvent) ParkedEvent {
	return ParkedEvent{
		Seq: e.Seq, ID: e.ID, TenantID: e.TenantID, ServiceCallID: e.ServiceCallID, CorrelationID: e.CorrelationID,
		AppendedAt: stamp(e.AppendedAt), ParkedAt: stamp(e.ParkedAt), Attempts: e.Attempts, Reason: e.Reason,
	}
}

// A TenantQuery may narrow an answer to a tenant.
type TenantQuery struct {
	Tenant string `query:"tenant" maxLength:"64" pattern:"^[A-Za-z0-9][A-Za-z0-9_-]*$" doc:"Only what belongs to this tenant." example:"acme"`
}

// Resolve narrows the query to the only tenant that the request may see, if it may not see all.
func (q *TenantQuery) Resolve(ctx huma.Context) []error {
	tenant, err := only(ctx.Context(), q.Tenant)
	if err != nil {
		return []error{err}
	}
	q.Tenant = string(tenant)
	return nil
}

type (
	parkedListInput struct {
		TenantQuery
		Reason        string  `query:"reason" maxLength:"256" doc:"Only those whose reason has this text, in upper or lower case."`
		Since         instant `query:"since" doc:"Only events that were parked then or later, as RFC 3339 with a zone." example:"2030-01-31T12:00:00Z"`
		CorrelationID string  `query:"correlationId" maxLength:"128" doc:"Only events with this correlation id."`
		Limit         int     `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many at most."`
		After         int64   `query:"after" minimum:"0" doc:"The page before this number: next of the page that came before it."`
	}
	parkedListOutput struct{ Body ParkedEvents }
	parkedInput      struct {
		Seq int64 `path:"seq" minimum:"1" example:"17" doc:"Number of the parked event."`
	}
	parkedOutput struct{ Body ParkedEvent }
)

func (a *api) addParked() {
	add(a, "/v1/parked", "list-parked-events", "Events that the broker refused for good, newest first", filtered, a.parkedList)
	add(a, "/v1/parked/{seq}", "get-parked-event", "A parked event, with its body", filtered, a.parkedEvent)
	changes := func(how parkedChange) func(context.Context, *parkedInput) (*struct{}, error) {
		return func(ctx context.Context, in *parkedInput) (*struct{}, error) {
			_, err := a.actions.changeParked(ctx, how, selection{Tenant: accessOf(ctx).tenant, ID: strconv.FormatInt(in.Seq, 10)})
			return nil, err
		}
	}
	change(a, huma.Operation{
		OperationID: "retry-parked-event", Method: http.MethodPost, Path: "/v1/parked/{seq}:retry", Summary: "Put a parked event back into the outbox, as if it were new",
	}, filtered, changes(retryParked))
	change(a, huma.Operation{
		OperationID: "discard-parked-event", Method: http.MethodDelete, Path: "/v1/parked/{seq}", Summary: "Delete a parked event for good",
	}, filtered, changes(discardParked))
}

func (a *api) parkedList(ctx context.Context, in *parkedListInput) (*parkedListOutput, error) {
	s := selection{Tenant: timer.TenantID(in.Tenant), Reason: in.Reason, Correlation: in.CorrelationID, From: in.Since.Time}
	page, next, err := s.parked(ctx, a.timers, strconv.FormatInt(in.After, 10), in.Limit)
	return &parkedListOutput{ParkedEvents{all(page, showParked), next}}, err
}

func (a *api) parkedEvent(ctx context.Context, in *parkedInput) (*parkedOutput, error) {
	e, err := parkedEvent(ctx, a.timers, accessOf(ctx).tenant, in.Seq)
	out := &parkedOutput{showParked(e)}
	out.Body.Body = showBody(e.Body)
	return out, err
}
