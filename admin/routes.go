package admin

import (
	"net/http"
	"path"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/event-service-agent/timer-service/timer"
)

// A rule says whom a route answers. There is no route without one.
type rule int

// Rules.
const (
	public      rule = iota + 1 // without a token, too
	anyToken                    // any token: it shows nothing of tenants
	tenantToken                 // the token of all tenants, and that of the tenant in the path; to others there is no such tenant
	filtered                    // any token: the handler answers with what [accessOf] lets see
	adminToken                  // the token of all tenants only
)

// routes are those of a server. A rule is asked before the handler.
type routes struct {
	mux   *http.ServeMux
	rules map[string]rule // by pattern
}

func newRoutes() *routes { return &routes{mux: http.NewServeMux(), rules: make(map[string]rule)} }

// handle adds a route for those whom a rule lets pass. The pattern is one of
// [http.ServeMux]; with [tenantToken] it has {tenant}.
func (rs *routes) handle(pattern string, rule rule, answer http.HandlerFunc) {
	rs.rules[pattern] = mustHave(rule, pattern)
	rs.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if err := rule.check(accessOf(r.Context()), r.PathValue("tenant")); err != nil {
			refuse(w, r, err.GetStatus(), err.Error())
			return
		}
		answer(w, r)
	})
}

// mustHave returns a rule that a route may have.
func mustHave(rule rule, pattern string) rule {
	ofTenant := strings.Contains(pattern, "{tenant}")
	if rule < public || rule > adminToken || rule == tenantToken && !ofTenant || ofTenant && rule != tenantToken && rule != adminToken {
		panic("admin: the route " + pattern + " has no rule that fits") // a mistake of ours
	}
	return rule
}

// check returns why a rule does not let a request pass that names a tenant in its
// path, or nil.
func (r rule) check(who access, tenant string) huma.StatusError {
	switch {
	case who.tenant == "", r == public, r == anyToken, r == filtered:
		return nil
	case r == tenantToken && who.tenant == timer.TenantID(tenant):
		return nil
	case r == tenantToken:
		return errOtherTenant
	}
	return errOneTenant
}

// ruleKey is where the metadata of an operation has its [rule].
const ruleKey = "rule"

// guarded is an adapter that asks the rule of an operation before its handler.
type guarded struct {
	huma.Adapter
	api *api
}

// Handle adds an operation. One without a rule is a mistake of ours.
func (g guarded) Handle(op *huma.Operation, answer func(huma.Context)) {
	route := op.Method + " " + op.Path
	rule, _ := op.Metadata[ruleKey].(rule)
	g.api.rules[route] = mustHave(rule, route)
	at := *op
	at.Path = verbPath(op.Path)
	g.Adapter.Handle(&at, func(c huma.Context) {
		if err := rule.check(accessOf(c.Context()), c.Param("tenant")); err != nil {
			_ = huma.WriteErr(g.api.huma, c, err.GetStatus(), err.Error()) // the client has gone
			return
		}
		answer(c)
	})
}

// verbPath returns where a mux finds a path that ends with a verb, as {id}:replay does:
// it takes whole segments only. Other paths stay as they are.
func verbPath(path string) string {
	if before, verb, ok := strings.Cut(path, "}:"); ok {
		return before + "}/:" + verb
	}
	return path
}

// splitVerb makes the verb at the end of the path of a POST a segment of its own.
func splitVerb(r *http.Request) {
	path := r.URL.EscapedPath()
	i := strings.LastIndexByte(path, ':')
	if r.Method != http.MethodPost || i <= strings.LastIndexByte(path, '/') {
		return
	}
	verb := path[i:]
	if verb != ":replay" && verb != ":retry" {
		return
	}
	r.URL.Path = strings.TrimSuffix(r.URL.Path, verb) + "/" + verb
	r.URL.RawPath = path[:i] + "/" + verb
}

// isClean reports whether a mux takes the path of a request as it is: it would redirect
// to the path that it cleans, without the prefix.
func isClean(r *http.Request) bool {
	at := r.URL.EscapedPath()
	clean := path.Clean(at)
	return at == clean || clean != "/" && at == clean+"/"
}

// ofAPI reports whether a request is for the JSON API, with a path that there may not be.
func ofAPI(r *http.Request) bool { return strings.HasPrefix(r.URL.Path+"/", "/v1/") }

// refuse answers with a problem below /v1, and with text elsewhere.
func refuse(w http.ResponseWriter, r *http.Request, status int, detail string) {
	if !ofAPI(r) {
		writeText(w, status, detail+"\n")
		return
	}
	writeProblem(w, status, detail)
}
