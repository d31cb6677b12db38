package admin

import (
	"context"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// An Operation is a row of the table of operations: something that people and programs can ask of
// a service. The route of the API, its description, the verbs of the command line and the table
// of docs/api.md are made of these rows.
type Operation struct {
	ID      string // such as "list-timers"
	Method  string
	Path    string
	Summary string // one line
	About   string // more about it, for the OpenAPI document; may be empty
	Live    bool   // only a running service knows the answer: the database alone does not have it
	Verb    string // that asks for it, unless rows of [Verbs] do; may be empty
	Params  []Param

	rule  rule
	body  string                      // type of the body of requests; empty: they have none
	tune  func(*api, *huma.Operation) // adds the properties that no field has; may be nil
	serve func(*api, Operation)       // registers the route
}

// A Param is a parameter in the path or the query of an operation.
type Param struct {
	reflect.StructField        // has its type, and the limits as tags
	Name                string // in the path or the query
	InPath              bool
}

// Who says for people which requests an operation answers.
func (o Operation) Who() string {
	return map[rule]string{tenantToken: "the tenant", filtered: "the tenant, of its own data", adminToken: "all tenants"}[o.rule]
}

// row returns an operation that a method of the api answers.
func row[In, Out any](o Operation, answer func(*api, context.Context, *In) (*Out, error)) Operation {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[In]()) {
		inPath, inQuery := f.Tag.Get("path"), f.Tag.Get("query")
		if name, _, _ := strings.Cut(inPath+inQuery, ","); name != "" {
			o.Params = append(o.Params, Param{f, name, inPath != ""})
		}
	}
	if in := reflect.TypeFor[In](); in.Kind() == reflect.Struct {
		if _, is := in.FieldByName("Body"); is {
			o.body = "application/json"
		}
		if f, is := in.FieldByName("RawBody"); is {
			o.body = f.Tag.Get("contentType")
		}
	}
	o.serve = func(a *api, o Operation) {
		huma.Register(a.huma, a.describeOperation(o), func(ctx context.Context, in *In) (*Out, error) {
			out, err := answer(a, ctx, in)
			if err != nil {
				return nil, a.answer(ctx, o.ID, err)
			}
			return out, nil
		})
	}
	return o
}

// read returns a GET whose answer has [readTimeout].
func read[In, Out any](id, path string, rule rule, summary string, answer func(*api, context.Context, *In) (*Out, error)) Operation {
	o := Operation{ID: id, Method: http.MethodGet, Path: path, Summary: summary, rule: rule}
	return row(o, func(a *api, ctx context.Context, in *In) (*Out, error) {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		return answer(a, ctx, in)
	})
}

// live returns an operation that only a running service answers.
func live(o Operation) Operation {
	o.Live = true
	return o
}

// errorsOf are the errors that any operation may answer.
var errorsOf = []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusUnprocessableEntity, http.StatusTooManyRequests, http.StatusServiceUnavailable}

// describeOperation returns the description of an operation, and notes it for its route.
func (a *api) describeOperation(o Operation) huma.Operation {
	pattern := o.Method + " " + o.Path
	a.routes.rules[pattern], a.routes.operations[pattern] = o.rule, o
	op := huma.Operation{OperationID: o.ID, Method: o.Method, Path: o.Path, Summary: o.Summary, Description: o.About, Errors: errorsOf, Responses: map[string]*huma.Response{}}
	if strings.Contains(o.Path, "{") {
		op.Errors = append([]int{http.StatusNotFound}, errorsOf...)
	}
	if o.Method != http.MethodGet {
		op.Responses[strconv.Itoa(http.StatusConflict)] = answerOf[Conflict](a, "application/problem+json", "It has no effect, or can't be done")
	}
	words := strings.FieldsFunc(o.Path, func(r rune) bool { return r == '/' || r == ':' })
	op.Tags = words[1:2] // generators make a class of each tag
	if len(words) > 3 && words[1] == "tenants" {
		op.Tags = words[3:4]
	}
	if o.tune != nil {
		o.tune(a, &op)
	}
	return op
}

// answerOf describes an answer of values of type T.
func answerOf[T any](a *api, contentType, description string) *huma.Response {
	return &huma.Response{Description: description, Content: map[string]*huma.MediaType{
		contentType: {Schema: a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[T](), true, "")},
	}}
}
