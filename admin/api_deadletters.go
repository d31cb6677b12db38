package admin

import (
	"context"
	"encoding/base64"
	"net/http"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/event-service-agent/timer-service/broker/deadletter"
	"github.com/event-service-agent/timer-service/timer"
)

// A DeadLetter is a dead letter in an answer.
type DeadLetter struct {
	ID            string         `json:"id"`
	TenantID      timer.TenantID `json:"tenantId" doc:"_ if it names no valid tenant."`
	Reason        timer.Reason   `json:"reason,omitempty" doc:"For machines, such as beyond_horizon."`
	Detail        string         `json:"detail,omitempty" doc:"For people."`
	Topic         string         `json:"topic,omitempty" doc:"Of the original."`
	Position      string         `json:"position,omitempty" doc:"Of the original in its topic."`
	OriginalID    string         `json:"originalId,omitempty"`
	FirstAt       string         `json:"firstAt,omitempty" format:"date-time" doc:"When it first became a dead letter."`
	LastAt        string         `json:"lastAt,omitempty" format:"date-time" doc:"When it last became one."`
	Count         int            `json:"count" doc:"How often it became one."`
	Replays       int            `json:"replays" doc:"How often it was replayed; after three it is refused."`
	Truncated     bool           `json:"truncated,omitempty" doc:"The body was cut. It can't be replayed."`
	CorrelationID string         `json:"correlationId,omitempty"`
	Bytes         int            `json:"bytes" doc:"Length of the body."`
	Body
}

// A Body is the body of a message, in one of two forms.
type Body struct {
	Text   *string `json:"body,omitempty" doc:"Body of the original, if one dead letter was asked for."`
	Base64 *string `json:"bodyBase64,omitempty" doc:"The same, if it is not UTF-8."`
}

func showBody(body []byte) Body {
	if utf8.Valid(body) {
		return Body{Text: new(string(body))}
	}
	return Body{Base64: new(base64.StdEncoding.EncodeToString(body))}
}

func showDeadLetter(m deadletter.Message) DeadLetter {
	return DeadLetter{
		ID: m.ID, TenantID: m.Tenant, Reason: m.Reason, Detail: m.Detail, Topic: m.Topic, Position: m.Position, OriginalID: m.OriginalID,
		FirstAt: stamp(m.FirstAt), LastAt: stamp(m.LastAt), Count: m.Count, Replays: m.Replays, Truncated: m.Truncated,
		CorrelationID: m.CorrelationID, Bytes: len(m.Body),
	}
}

// DeadLetters are a page of dead letters.
type DeadLetters struct {
	DeadLetters []DeadLetter `json:"deadLetters" nullable:"false"`
	Next        string       `json:"next,omitempty" doc:"Where the next page begins: send it as after. None after the last page."`
}

// A DeadLetterOwner is the part of a path that names the owner of dead letters.
type DeadLetterOwner struct {
	Tenant string `path:"tenant" maxLength:"64" pattern:"^(_|[A-Za-z0-9][A-Za-z0-9_-]*)$" example:"acme" doc:"_ for dead letters that name no valid tenant."`
}

// A DeadLetterPath is the part of a path that names a dead letter.
type DeadLetterPath struct {
	DeadLetterOwner
	ID string `path:"id" maxLength:"128" pattern:"^[!-~]+$" example:"31b57e33-eb4d-5b11-a6d2-6a5b2d2ffb2c"`
}

// A DeadLetterQuery selects dead letters.
type DeadLetterQuery struct {
	PageQuery
	Reason        string  `query:"reason" enum:"too_large,not_utf8,not_json,too_deep,duplicate_key,missing_field,bad_field,bad_time,tenant_mismatch,key_mismatch,unknown_type,beyond_horizon,refused,over_quota,not_handled" doc:"Only those with this reason."`
	Since         instant `query:"since" doc:"Only dead letters from then on, as RFC 3339 with a zone." example:"2030-01-31T12:00:00Z"`
	CorrelationID string  `query:"correlationId" maxLength:"128" doc:"Only dead letters with this correlation id."`
}

type (
	deadLettersInput struct {
		DeadLetterOwner
		DeadLetterQuery
	}
	allDeadLettersInput struct{ DeadLetterQuery }
	deadLettersOutput   struct{ Body DeadLetters }
	deadLetterInput     struct{ DeadLetterPath }
	deadLetterOutput    struct{ Body DeadLetter }
)

func (a *api) addDeadLetters() {
	const path = "/v1/tenants/{tenant}/dead-letters"
	read := func(path, id, summary string) huma.Operation {
		return huma.Operation{OperationID: id, Method: http.MethodGet, Path: path, Summary: summary}
	}
	register(a, read(path, "list-dead-letters", "Dead letters of a tenant, oldest first"), tenantToken,
		func(ctx context.Context, in *deadLettersInput) (*deadLettersOutput, error) {
			return a.deadLetters(ctx, timer.TenantID(in.Tenant), in.DeadLetterQuery)
		})
	register(a, read("/v1/dead-letters", "list-all-dead-letters", "Dead letters of all tenants, if the broker can list them"), adminToken,
		func(ctx context.Context, in *allDeadLettersInput) (*deadLettersOutput, error) {
			return a.deadLetters(ctx, "", in.DeadLetterQuery)
		})
	register(a, read(path+"/{id}", "get-dead-letter", "A dead letter, with the body of its original"), tenantToken, a.deadLetter)
	removes := func(how removal) func(context.Context, *deadLetterInput) (*struct{}, error) {
		return func(ctx context.Context, in *deadLetterInput) (*struct{}, error) {
			_, err := a.actions.remove(ctx, how, selection{Tenant: timer.TenantID(in.Tenant), ID: in.ID})
			return nil, err
		}
	}
	change(a, huma.Operation{
		OperationID: "replay-dead-letter", Method: http.MethodPost, Path: path + "/{id}:replay", Summary: "Publish the original once more, and remove the dead letter",
	}, tenantToken, removes(replay))
	change(a, huma.Operation{
		OperationID: "discard-dead-letter", Method: http.MethodDelete, Path: path + "/{id}", Summary: "Remove a dead letter for good",
	}, tenantToken, removes(discard))
}

func (a *api) deadLetters(ctx context.Context, tenant timer.TenantID, q DeadLetterQuery) (*deadLettersOutput, error) {
	s := selection{Tenant: tenant, Reason: q.Reason, Correlation: q.CorrelationID, From: q.Since.Time}
	page, next, err := a.actions.deadLetters(ctx, s.letters(), q.After, q.Limit)
	return &deadLettersOutput{DeadLetters{all(page, showDeadLetter), next}}, err
}

func (a *api) deadLetter(ctx context.Context, in *deadLetterInput) (*deadLetterOutput, error) {
	m, err := a.actions.deadLetter(ctx, timer.TenantID(in.Tenant), in.ID)
	out := &deadLetterOutput{showDeadLetter(m)}
	out.Body.Body = showBody(m.Body)
	return out, err
}
