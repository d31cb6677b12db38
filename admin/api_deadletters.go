package admin

import (
	"cmp"
	"context"
	"encoding/base64"
	"time"
	"unicode/utf8"

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
	Text   *string `json:"body,omitempty" doc:"Body of the original, if bodies were asked for."`
	Base64 *string `json:"bodyBase64,omitempty" doc:"The same, if it is not UTF-8."`
}

func showBody(body []byte) Body {
	if utf8.Valid(body) {
		return Body{Text: new(string(body))}
	}
	return Body{Base64: new(base64.StdEncoding.EncodeToString(body))}
}

func showDeadLetter(m deadletter.Message, withBody bool) DeadLetter {
	shown := DeadLetter{
		ID: m.Ref(), TenantID: m.Tenant, Reason: m.Reason, Detail: m.Detail, Topic: m.Topic, Position: m.Position, OriginalID: m.OriginalID,
		FirstAt: stamp(m.FirstAt), LastAt: stamp(m.LastAt), Count: m.Count, Replays: m.Replays, Truncated: m.Truncated,
		CorrelationID: m.CorrelationID, Bytes: len(m.Body),
	}
	if withBody {
		shown.Body = showBody(m.Body)
	}
	return shown
}

// DeadLetters are a page of dead letters.
type DeadLetters struct {
	DeadLetters []DeadLetter `json:"deadLetters" nullable:"false"`
	Next        string       `json:"next,omitempty" doc:"Where the next page begins: send it as after. None after the last page."`
}

// A DeadLetterQuery selects dead letters.
type DeadLetterQuery struct {
	OwnerQuery
	Reason        string `query:"reason" enum:"too_large,not_utf8,not_json,too_deep,duplicate_key,missing_field,bad_field,bad_time,tenant_mismatch,key_mismatch,unknown_type,beyond_horizon,refused,over_quota,not_handled" doc:"Only those with this reason, such as beyond_horizon."`
	Since         Since  `query:"since" doc:"Only those from then on: RFC 3339 with a zone, or a duration before now." example:"7d"`
	CorrelationID string `query:"correlationId" maxLength:"128" doc:"Only those with this correlation id."`
	ID            string `query:"id" maxLength:"160" doc:"Only the one with this id."`
	PageQuery
}

// selection returns the selection of a query by a clock.
func (q *DeadLetterQuery) selection(now time.Time) selection {
	return selection{Tenant: timer.TenantID(q.Tenant), Reason: q.Reason, Correlation: q.CorrelationID, From: q.Since.At(now), ID: q.ID}
}

// A RemovedDeadLetter is the result for a dead letter.
type RemovedDeadLetter struct {
	DryRun   bool           `json:"dryRun,omitempty" doc:"It would become that: nothing was changed."`
	ID       string         `json:"id"`
	TenantID timer.TenantID `json:"tenantId"`
	Reason   timer.Reason   `json:"reason,omitempty"`
	Result   string         `json:"result" enum:"replayed,discarded,refused"`
	Why      string         `json:"why,omitempty" doc:"Why it was refused, and stays."`
}

// RemovedDeadLetters are the results for some of the selected dead letters.
type RemovedDeadLetters struct {
	DeadLetters []RemovedDeadLetter `json:"deadLetters" nullable:"false"`
	Next        string              `json:"next,omitempty" doc:"There may be more: ask again, with this as after, and with until."`
	Until       string              `json:"until" format:"date-time" doc:"What became a dead letter later is left out."`
}

type (
	deadLettersInput struct {
		DeadLetterQuery
		Bodies bool `query:"body" doc:"With the bodies of their originals."`
	}
	removalInput struct {
		DeadLetterQuery
		All    bool   `query:"all" doc:"All dead letters; needed without a selection."`
		DryRun bool   `query:"dryRun" doc:"Only say which are selected."`
		Until  Moment `query:"until" flag:"-" doc:"Only messages that last became dead letters until then, so that no page has a message that was refused again meanwhile. None: now."`
	}
)

func (a *api) deadLetters(ctx context.Context, in *deadLettersInput) (*reply[DeadLetters], error) {
	page, next, err := a.actions.deadLetters(ctx, in.selection(a.now()).letters(), in.After, in.Limit)
	if err == nil && in.ID != "" && len(page) == 0 {
		err = noDeadLetter(in.ID)
	}
	return &reply[DeadLetters]{DeadLetters{all(page, func(m deadletter.Message) DeadLetter { return showDeadLetter(m, in.Bodies) }), next}}, err
}

func (a *api) replay(ctx context.Context, in *removalInput) (*reply[RemovedDeadLetters], error) {
	return a.remove(ctx, replay, in)
}

func (a *api) discard(ctx context.Context, in *removalInput) (*reply[RemovedDeadLetters], error) {
	return a.remove(ctx, discard, in)
}

// remove removes a page of the selected dead letters, and returns the result of each.
func (a *api) remove(ctx context.Context, how removal, in *removalInput) (*reply[RemovedDeadLetters], error) {
	now := a.now()
	s := in.selection(now)
	if err := selects(s, in.All); err != nil {
		return nil, err
	}
	f := s.letters()
	f.Until = cmp.Or(in.Until.At(now), timer.RoundDown(now))
	out := &reply[RemovedDeadLetters]{RemovedDeadLetters{DeadLetters: []RemovedDeadLetter{}, Until: stamp(f.Until)}}
	tell := func(r deadletter.Result) {
		removed := RemovedDeadLetter{DryRun: in.DryRun, ID: r.Message.Ref(), TenantID: r.Message.Tenant, Reason: r.Message.Reason, Result: r.Did}
		if r.Why != nil {
			removed.Why = r.Why.Error()
		}
		out.Body.DeadLetters = append(out.Body.DeadLetters, removed)
	}
	if in.DryRun {
		page, next, err := a.actions.deadLetters(ctx, f, in.After, in.Limit)
		for _, m := range page {
			tell(deadletter.Result{Message: m, Did: how.Did})
		}
		out.Body.Next = next
		return out, err
	}
	f.After, f.Limit = in.After, in.Limit
	sum, err := a.actions.remove(ctx, how, s, f, tell)
	if out.Body.Next = sum.Next; sum.Done > 0 && err != nil { // the next call has the error, if it lasts
		out.Body.Next, err = cmp.Or(in.After, "@"), nil
	}
	if err == nil && in.ID != "" && len(out.Body.DeadLetters) == 0 {
		err = noDeadLetter(in.ID)
	}
	return out, err
}
