package admin

import (
	"cmp"
	"mime"
	"net/http"
	"net/http/httptest"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/timer"
)

// A rule says which requests a route answers. Each route has one.
type rule int

const (
	public        rule = iota + 1 // all requests, even without a token
	anyToken                      // any token: the route shows nothing about tenants
	tenantToken                   // a token of all tenants or of the tenant in the path; any other gets 404
	filtered                      // any token: the handler shows the data that [accessOf] allows
	adminToken                    // only tokens of all tenants
	operatorToken                 // only tokens of all tenants with the role operate
	metricsToken                  // tokens of all tenants, and those for metrics alone
)

// Routes are the routes of a server, those of the API too. A rule is checked before the
// handler runs.
type routes struct {
	*http.ServeMux
	rules      map[string]rule                                            // by pattern
	operations map[string]Operation                                       // of the API, by pattern
	page       func(http.ResponseWriter, *http.Request, huma.StatusError) // answers browsers; nil if there are no pages
}

func newRoutes() *routes {
	return &routes{ServeMux: http.NewServeMux(), rules: make(map[string]rule), operations: make(map[string]Operation)}
}

// ServeHTTP answers a request. If there is no route for it, the answer says so, or which
// methods the path takes.
func (rs *routes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !ofAPI(r) { // each operation of the API has a limit of its own
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	}
	if !isClean(r) {
		rs.refuse(w, r, http.StatusNotFound, NoPath)
		return
	}
	unknown, pattern := rs.Handler(r)
	if pattern != "" {
		rs.ServeMux.ServeHTTP(w, r)
		return
	}
	refused := httptest.NewRecorder()
	unknown.ServeHTTP(refused, r)
	if allowed := refused.Header().Get("Allow"); allowed != "" {
		w.Header().Set("Allow", allowed)
		rs.refuse(w, r, http.StatusMethodNotAllowed, "this path takes other methods: "+allowed)
		return
	}
	rs.refuse(w, r, http.StatusNotFound, NoPath)
}

// NoPath is the detail of the problem that a path has no route.
const NoPath = "there is no such path: see /openapi.json"

// refuse answers a browser with a page, and any other client with a problem.
func (rs *routes) refuse(w http.ResponseWriter, r *http.Request, status int, detail string) {
	if rs.page != nil && !ofAPI(r) && strings.Contains(r.Header.Get("Accept"), "text/html") {
		rs.page(w, r, huma.NewError(status, detail))
		return
	}
	writeProblem(w, status, detail)
}

// handle adds a route for the requests that a rule allows. With [tenantToken] the
// pattern has {tenant}.
func (rs *routes) handle(pattern string, rule rule, answer http.HandlerFunc) {
	rs.rules[pattern] = rule
	rs.HandleFunc(pattern, answer)
}

// HandleFunc adds a route whose rule is known already. A route without a rule is a mistake in
// this package.
func (rs *routes) HandleFunc(pattern string, answer func(http.ResponseWriter, *http.Request)) {
	rule, ofTenant := rs.rules[pattern], strings.Contains(pattern, "{tenant}")
	if rule < public || rule > metricsToken || rule == tenantToken && !ofTenant || ofTenant && rule != tenantToken && rule != adminToken {
		panic("admin: the route " + pattern + " has no rule that fits") // a mistake in this package
	}
	rs.ServeMux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if err := rule.check(accessOf(r.Context()), r.PathValue("tenant")); err != nil {
			refuse(w, r, err.GetStatus(), err.Error())
			return
		}
		if o, is := rs.operations[pattern]; is {
			if err := cmp.Or(o.checkBody(r), o.checkQuery(r)); err != nil {
				refuse(w, r, err.GetStatus(), err.Error())
				return
			}
		}
		answer(w, r)
	})
}

// checkBody returns why an operation does not take the body of a request: it would ignore the body,
// or could not read it.
func (o Operation) checkBody(r *http.Request) huma.StatusError {
	sent, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")) // empty if it is none
	switch {
	case r.Body == nil:
	case o.body == "":
		if n, _ := r.Body.Read(make([]byte, 1)); n > 0 {
			return huma.Error400BadRequest("this takes no body, and would ignore it: give its parameters in the query, as in ?tenant=acme")
		}
	case o.body == "application/json" && sent != "" && sent != o.body:
		return huma.NewError(http.StatusUnsupportedMediaType, "send "+o.body+" as the Content-Type, with a body of JSON")
	}
	return nil
}

// checkQuery returns why an operation does not take the query of a request: a parameter without a
// value, as of a script whose variable is empty, would select everything, and of one that is given
// twice a value would be ignored.
func (o Operation) checkQuery(r *http.Request) huma.StatusError {
	query := r.URL.Query()
	for _, p := range o.Params {
		switch values := query[p.Name]; {
		case slices.Contains(values, "") && p.Name != "after": // an empty place is where the first page begins
			return huma.Error422UnprocessableEntity(p.Name + " has no value: give one, or leave it out")
		case len(values) > 1 && p.Type.Kind() != reflect.Slice:
			return huma.Error422UnprocessableEntity(p.Name + " is given more than once")
		}
	}
	return nil
}

// check returns why a rule refuses a request that names a tenant in its path, or nil if it
// allows the request.
func (r rule) check(who access, tenant string) huma.StatusError {
	switch {
	case r == public, r == metricsToken && who.role == config.Metrics:
		return nil
	case who.role == config.Metrics:
		return errMetricsToken
	case r == operatorToken && who.role == config.Read:
		return errReadToken
	case who.tenant == "", r == anyToken, r == filtered:
		return nil
	case r == tenantToken && who.tenant == timer.TenantID(tenant):
		return nil
	case r == tenantToken:
		return errOtherTenant
	}
	return errOneTenant
}

// isClean reports whether the mux takes the path of a request as it is. Otherwise the mux
// would redirect to the cleaned path, without the prefix.
func isClean(r *http.Request) bool {
	at := r.URL.EscapedPath()
	clean := path.Clean(at)
	return at == clean || clean != "/" && at == clean+"/"
}

// ofAPI reports whether the path of a request is below /v1, even if there is no such path.
func ofAPI(r *http.Request) bool { return strings.HasPrefix(r.URL.Path+"/", "/v1/") }

// refuse answers with a problem, or outside of /v1 with text if the client asks for that, as
// browsers, probes and Prometheus do.
func refuse(w http.ResponseWriter, r *http.Request, status int, detail string) {
	if !ofAPI(r) && strings.Contains(r.Header.Get("Accept"), "text/") {
		writeText(w, status, detail+"\n")
		return
	}
	writeProblem(w, status, detail)
}
