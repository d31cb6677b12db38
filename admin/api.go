package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/go-json-experiment/json"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// apiVersion is the version of the JSON API. The minor number grows with each addition.
const apiVersion = "1.0"

// readTimeout is how long a request may read the database.
const readTimeout = 2 * time.Second

// An api answers the paths below /v1, in JSON. Errors are problems as in RFC 9457.
type api struct {
	*actions
	routes *routes
	huma   huma.API
}

// strict reads JSON as messages are read: keys have one spelling, and no key is unknown or
// repeated.
var strict = huma.Format{
	Marshal: huma.DefaultJSONFormat.Marshal,
	Unmarshal: func(data []byte, v any) error {
		err := json.Unmarshal(data, v, json.RejectUnknownMembers(true))
		semantic, ok := errors.AsType[*json.SemanticError](err)
		switch {
		case !ok && err != nil:
			return errors.New(strings.TrimPrefix(err.Error(), "jsontext: "))
		case !ok:
			return nil
		case errors.Is(err, json.ErrUnknownName):
			return fmt.Errorf("there is no field %q", semantic.JSONPointer.LastToken())
		}
		kind := strings.NewReplacer("{", "object", "[", "array").Replace(semantic.JSONKind.String())
		return fmt.Errorf("a value of the kind %s does not fit at %q", kind, semantic.JSONPointer)
	},
}

// nameFirst puts the first mistake in a request into the detail of a problem, for people and
// for clients that read only the detail.
func nameFirst(_ huma.Context, _ string, answer any) (any, error) {
	if p, is := answer.(*huma.ErrorModel); is && len(p.Errors) > 0 {
		p.Detail = strings.TrimPrefix(p.Errors[0].Location+": ", ": ") + strings.TrimPrefix(p.Errors[0].Message, "invalid value: invalid: ")
	}
	return answer, nil
}

// newAPI returns an api. Clients see the prefix in front of its paths.
func newAPI(actions *actions, on *routes) *api {
	c := huma.DefaultConfig("Timer service", apiVersion)
	c.Info.Description = "Reads timers of any tenant, and publishes commands. Every answer that is not 2xx is a problem as of RFC 9457."
	if actions.Prefix != "" {
		c.Servers = []*huma.Server{{URL: actions.Prefix}}
	}
	c.OpenAPIPath, c.DocsPath, c.SchemasPath = "", "", "" // this server has its own
	c.CreateHooks = nil                                   // no $schema in answers
	c.Formats = map[string]huma.Format{"application/json": strict, "json": strict}
	c.Transformers = []huma.Transformer{nameFirst}
	c.RejectUnknownQueryParameters = true // a misspelled filter must not match everything
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer", Description: "The value of http_token, if that is set."}}
	c.Security = []map[string][]string{{}, {"token": {}}}
	a := &api{actions, on, huma.NewAPI(c, humago.NewAdapter(on, ""))}
	for _, o := range Operations {
		o.serve(a, o)
	}
	for name, s := range c.Components.Schemas.Map() {
		if name != "TimerRequest" { // TimerRequest is read strictly
			s.AdditionalProperties = nil // fields that are added later must not break clients
		}
	}
	return a
}

// writeProblem answers with a problem.
func writeProblem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = huma.DefaultJSONFormat.Marshal(w, huma.NewError(status, detail)) // fails if the client has gone
}

// answer returns an error as an answer. The text of an error that is not about the request
// stays in the log.
func (a *actions) answer(ctx context.Context, what string, err error) huma.StatusError {
	if problem := explain(err); problem != nil {
		return problem
	}
	a.log.WarnContext(ctx, "a request was not answered", "operation", what, "error", err)
	if a.Failed != nil {
		a.Failed(err)
	}
	return huma.Error503ServiceUnavailable("the database or the broker did not answer: see /readyz?verbose, and try again")
}

// explain returns an error that is about the request as an answer. For any other error it returns
// nil, and the client is told no details.
func explain(err error) huma.StatusError {
	var problem huma.StatusError
	var invalid *timer.InvalidError
	switch {
	case errors.As(err, &problem):
		return problem
	case errors.As(err, &invalid):
		return conflict(http.StatusUnprocessableEntity, string(invalid.Reason), invalid.Detail)
	case errors.Is(err, timer.ErrStale):
		return conflict(http.StatusConflict, timer.WasStale.String(), err.Error())
	case errors.Is(err, timer.ErrReached):
		return conflict(http.StatusConflict, timer.WasReached.String(), err.Error())
	case errors.Is(err, timer.ErrExpired):
		return conflict(http.StatusConflict, timer.WasExpired.String(), err.Error())
	case errors.Is(err, timer.ErrOverQuota):
		return huma.Error429TooManyRequests(err.Error())
	case errors.Is(err, timer.ErrNotFound):
		return huma.Error404NotFound("there is no such timer")
	case errors.Is(err, broker.ErrNameTenant):
		return huma.Error422UnprocessableEntity(broker.ErrNameTenant.Error())
	case errors.Is(err, broker.ErrDenied):
		return huma.Error403Forbidden(err.Error())
	}
	return nil
}

// all returns the result of show for each row.
func all[Row, Shown any](rows []Row, show func(Row) Shown) []Shown {
	shown := make([]Shown, len(rows))
	for i, row := range rows {
		shown[i] = show(row)
	}
	return shown
}

// A reply is an answer whose body is a T.
type reply[T any] struct{ Body T }

// stamp returns a time as messages carry it, or "" for zero.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return envelope.FormatTime(t)
}
