package admin

import (
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
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
	filtered                      // any token: the handler shows what [accessOf] allows
	adminToken                    // only tokens of all tenants
	operatorToken                 // only tokens of all tenants with the role operate
	metricsToken                  // tokens of all tenants, and those for metrics alone
)

// Routes are the routes of a server, those of the API too. A rule is checked before the
// handler runs.
type routes struct {
	*http.ServeMux
	rules map[string]rule // by pattern
}

func newRoutes() *routes { return &routes{http.NewServeMux(), make(map[string]rule)} }

// ServeHTTP answers a request. If there is no route for it, the answer says so, or which
// methods the path takes.
func (rs *routes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if ofAPI(r) { // each operation has a limit of its own
		splitVerb(r)
	} else {
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	}
	const none = "there is no such path: see /openapi.json"
	if !isClean(r) {
		refuse(w, r, http.StatusNotFound, none)
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
		refuse(w, r, http.StatusMethodNotAllowed, "this path takes other methods: "+allowed)
		return
	}
	refuse(w, r, http.StatusNotFound, none)
}

// handle adds a route for the requests that a rule allows. The pattern is one of
// [http.ServeMux], but may end with a verb; with [tenantToken] it has {tenant}.
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
	rs.ServeMux.HandleFunc(verbPath(pattern), func(w http.ResponseWriter, r *http.Request) {
		if err := rule.check(accessOf(r.Context()), r.PathValue("tenant")); err != nil {
			refuse(w, r, err.GetStatus(), err.Error())
			return
		}
		answer(w, r)
	})
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

// verbPath returns the path under which the mux registers a path that ends with a verb, as
// {id}:replay does: the mux matches whole segments only, and splitVerb can't tell paths apart.
// Other paths stay as they are.
func verbPath(path string) string {
	if before, verb, ok := strings.Cut(path, "}:"); ok {
		return before + "}/:" + verb
	}
	if before, found := strings.CutSuffix(path, ":replay"); found {
		return before + "/:replay"
	}
	return path
}

// verb matches a path that ends with a verb.
var verb = regexp.MustCompile(`^(.*):(replay|retry)$`)

// splitVerb makes the verb at the end of the path of a POST a segment of its own.
func splitVerb(r *http.Request) {
	if found := verb.FindStringSubmatch(r.URL.EscapedPath()); found != nil && r.Method == http.MethodPost {
		r.URL.Path = strings.TrimSuffix(r.URL.Path, ":"+found[2]) + "/:" + found[2]
		r.URL.RawPath = found[1] + "/:" + found[2]
	}
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

// refuse answers with a problem below /v1, and with text elsewhere.
func refuse(w http.ResponseWriter, r *http.Request, status int, detail string) {
	if !ofAPI(r) {
		writeText(w, status, detail+"\n")
		return
	}
	writeProblem(w, status, detail)
}
