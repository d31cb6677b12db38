package admin

import (
	"cmp"
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
	ID            string         `json:"id" doc:"Where the broker can seek, it ends with @ and the place of the dead letter, by which it is found at once. Without that it is found, too, but slowly if there are many."`
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
		ID: m.Ref(), TenantID: m.Tenant, Reason: m.Reason, Detail: m.Detail, Topic: m.Topic, Position: m.Position, OriginalID: m.OriginalID,
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
	ID string `path:"id" maxLength:"160" pattern:"^[!-~]+$" example:"31b57e33-eb4d-5b11-a6d2-6a5b2d2ffb2c"`
}

// A DeadLetterQuery selects dead letters.
type DeadLetterQuery struct {
	PageQuery
	Reason        string  `query:"reason" enum:"too_large,not_utf8,not_json,too_deep,duplicate_key,missing_field,bad_field,bad_time,tenant_mismatch,key_mismatch,unknown_type,beyond_horizon,refused,over_quota,not_handled" doc:"Only those with this reason."`
	Since         instant `query:"since" doc:"Only dead letters from then on, as RFC 3339 with a zone." example:"2030-01-31T12:00:00Z"`
	CorrelationID string  `query:"correlationId" maxLength:"128" doc:"Only dead letters with this correlation id."`
	ID            string  `query:"id" maxLength:"160" doc:"Only the dead letter with this id."`
}

// A RemovedDeadLetter says what became of a dead letter.
type RemovedDeadLetter struct {
	ID       string         `json:"id"`
	TenantID timer.TenantID `json:"tenantId"`
	Reason   timer.Reason   `json:"reason,omitempty"`
	Result   string         `json:"result" enum:"replayed,discarded,refused"`
	Why      string         `json:"why,omitempty" doc:"Why it was refused, and stays."`
}

// RemovedDeadLetters say what became of some of the selected dead letters.
type RemovedDeadLetters struct {
	DeadLetters []RemovedDeadLetter `json:"deadLetters" nullable:"false"`
	Next        string              `json:"next,omitempty" doc:"There may be more: ask again, with this as after."`
}

type (
	deadLettersInput struct {
		DeadLetterOwner
		DeadLetterQuery
	}
	allDeadLettersInput struct{ DeadLetterQuery }
	deadLettersOutput   struct{ Body DeadLetters }
	removedOutput       struct{ Body RemovedDeadLetters }
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
			return nil, a.actions.removeOne(ctx, how, timer.TenantID(in.Tenant), in.ID)
		}
	}
	change(a, huma.Operation{
		OperationID: "replay-dead-letter", Method: http.MethodPost, Path: path + "/{id}:replay", Summary: "Publish the original once more, and remove the dead letter",
	}, tenantToken, removes(replay))
	change(a, huma.Operation{
		OperationID: "discard-dead-letter", Method: http.MethodDelete, Path: path + "/{id}", Summary: "Remove a dead letter for good",
	}, tenantToken, removes(discard))
	for _, how := range []removal{replay, discard} {
		change(a, huma.Operation{
			OperationID: how.Verb + "-dead-letters", Method: http.MethodPost, Path: path + ":" + how.Verb, Summary: "Of a tenant: " + how.Verb + " dead letters, the oldest first",
		}, tenantToken, func(ctx context.Context, in *deadLettersInput) (*removedOutput, error) {
			return a.removeDeadLetters(ctx, how, timer.TenantID(in.Tenant), in.DeadLetterQuery)
		})
		change(a, huma.Operation{
			OperationID: how.Verb + "-all-dead-letters", Method: http.MethodPost, Path: "/v1/dead-letters:" + how.Verb, Summary: "Of all tenants: " + how.Verb + " dead letters, the oldest first",
		}, adminToken, func(ctx context.Context, in *allDeadLettersInput) (*removedOutput, error) {
			return a.removeDeadLetters(ctx, how, "", in.DeadLetterQuery)
		})
	}
}

// selection returns the selection of a query.
func (q DeadLetterQuery) selection(tenant timer.TenantID) selection {
	return selection{Tenant: tenant, Reason: q.Reason, Correlation: q.CorrelationID, From: q.Since.Time, ID: q.ID}
}

func (a *api) removeDeadLetters(ctx context.Context, how removal, tenant timer.TenantID, q DeadLetterQuery) (*removedOutput, error) {
	s, out := q.selection(tenant), &removedOutput{RemovedDeadLetters{DeadLetters: []RemovedDeadLetter{}}}
	f := s.letters()
	f.After, f.Limit = q.After, q.Limit
	sum, err := a.actions.remove(ctx, how, s, f, func(r deadletter.Result) {
		removed := RemovedDeadLetter{ID: r.Message.Ref(), TenantID: r.Message.Tenant, Reason: r.Message.Reason, Result: r.Did}
		if r.Why != nil {
			removed.Why = r.Why.Error()
		}
		out.Body.DeadLetters = append(out.Body.DeadLetters, removed)
	})
	if out.Body.Next = sum.Next; sum.Done > 0 && err != nil { // the next call has the error, if it lasts
		out.Body.Next, err = cmp.Or(q.After, "@"), nil
	}
	return out, err
}

func (a *api) deadLetters(ctx context.Context, tenant timer.TenantID, q DeadLetterQuery) (*deadLettersOutput, error) {
	page, next, err := a.actions.deadLetters(ctx, q.selection(tenant).letters(), q.After, q.Limit)
	return &deadLettersOutput{DeadLetters{all(page, showDeadLetter), next}}, err
}

func (a *api) deadLetter(ctx context.Context, in *deadLetterInput) (*deadLetterOutput, error) {
	m, err := a.actions.deadLetter(ctx, timer.TenantID(in.Tenant), in.ID)
	out := &deadLetterOutput{showDeadLetter(m)}
	out.Body.Body = showBody(m.Body)
	return out, err
}
