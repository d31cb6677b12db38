package admin_test

import (
	"context"
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/config"
)

// TestEachRouteHasARule asks each route there is, of the mux and of the API, without a
// token, with that of a tenant, and with that of all.
func TestEachRouteHasARule(t *testing.T) {
	t.Parallel()
	s, _ := operated(t, func(opt *admin.Options) {
		opt.Addr, opt.Profiles, opt.Metrics = ":8080", http.NotFoundHandler(), http.NotFoundHandler()
	})
	rules, without := s.Rules()
	if len(without) > 0 {
		t.Errorf("described and without a rule: %q", without)
	}
	ask := func(route, tenant, token string) int { return askRoute(t, s, route, tenant, token) }
	for route, rule := range rules {
		none, own, other, full := ask(route, "acme", ""), ask(route, "acme", "acme"), ask(route, "globex", "acme"), ask(route, "globex", "full")
		if refused := none == 401; refused == (rule == "anybody") {
			t.Errorf("%s without a token: %d", route, none)
		}
		if full == 401 || full == 403 {
			t.Errorf("%s with the token of all: %d", route, full)
		}
		switch rule {
		case "anybody":
		case "tenant":
			if own == 401 || own == 403 || other != 404 {
				t.Errorf("%s of a tenant: %d with its token, %d with another", route, own, other)
			}
		case "all", "operator", "metrics":
			if own != 403 {
				t.Errorf("%s of all: %d with the token of a tenant", route, own)
			}
		case "any", "filtered":
			if own == 401 || own == 403 {
				t.Errorf("%s of any: %d with the token of a tenant", route, own)
			}
		default:
			t.Errorf("%s has the rule %q", route, rule)
		}
	}
	if len(rules) < 30 {
		t.Errorf("%d routes", len(rules))
	}
}

// TestRolesOfTokens asks each route with the tokens of people and programs: one that reads changes
// nothing, one for metrics gets these alone, and one that operates may do all. Their names are in
// the audit.
func TestRolesOfTokens(t *testing.T) {
	t.Parallel()
	s, _ := operated(t, func(opt *admin.Options) {
		opt.Addr, opt.Profiles, opt.Metrics = ":8080", http.NotFoundHandler(), http.NotFoundHandler()
	})
	token := func(name string, role config.Role) config.Token {
		return config.Token{Name: name, Role: role, Hash: sha256.Sum256([]byte(name))}
	}
	must(t, s.UseTokens([]config.Token{token("alice", config.Operate), token("bob", config.Read), token("grafana", config.Metrics)}))
	rules, _ := s.Rules()
	for route, rule := range rules {
		for name, refused := range map[string]bool{"alice": false, "bob": rule == "operator", "grafana": rule != "metrics"} {
			code := askRoute(t, s, route, "globex", name)
			if bobs := name == "bob" && !strings.HasPrefix(route, "GET "); code == 401 || !bobs && (code == 403) != (refused && rule != "anybody") {
				t.Errorf("%s: %d with the token of %s, want it refused: %v", route, code, name, refused)
			}
		}
		method, path, found := strings.Cut(route, " ")
		if !found || method == "GET" || method == "OPTIONS" || rule == "anybody" {
			continue
		}
		// Each change, as it would be made.
		body, header := "", append(with("bob"), "Content-Type", "application/json")
		switch path += map[string]string{"DELETE /v1/tenants/{tenant}": "?confirm=globex", "DELETE /v1/tenants/{tenant}/timers": "?prefix=a", "POST /v1/tenants/{tenant}/timers:reschedule": "?prefix=a&in=1h", "POST /v1/timers:refire": "?since=2026-01-01T00:00:00Z", "POST /v1/clock:advance": "?by=1h", "POST /do/{deed}": "?tenant=globex", "POST /v1/parked:retry": "?seq=1", "POST /v1/parked:discard": "?seq=1", "POST /v1/dead-letters:replay": "?id=a", "POST /v1/dead-letters:discard": "?id=a"}[route]; route {
		case "PUT /v1/tenants/{tenant}/timers/{call}":
			body = `{"in":"1h"}`
		case "POST /v1/commands":
			body, header[3] = `{}`, admin.JSONLines
		}
		path = strings.NewReplacer("{tenant}", "globex", "{call}", "gone", "{deed}", "cancel").Replace(path)
		if w := request(s, method, path, body, header...); w.Code != 403 || !strings.Contains(w.Body.String(), "the role read") {
			t.Errorf("%s: %d %s with a token that reads", route, w.Code, w.Body)
		}
	}
	if code, text := get(s, "/v1/audit", with("bob")...); code != 200 || !strings.Contains(text, "with the token of alice") || !strings.Contains(text, "with the token of bob") {
		t.Errorf("the audit: %d %s", code, text)
	}
	if _, page := get(s, "/timers?tenant=acme", with("bob")...); !strings.Contains(page, "This page only reads") {
		t.Error("the pages offer changes to a token that reads")
	}
	if code, text := do(s, "POST", "/v1/firing:pause", with("bob")...); code != 403 || !strings.Contains(text, "role read") {
		t.Errorf("%d %s", code, text)
	}
}

// askRoute asks a route for a tenant with a token, and returns the status.
func askRoute(t *testing.T, s http.Handler, route, tenant, token string) int {
	t.Helper()
	method, path, found := strings.Cut(route, " ")
	if !found {
		method, path = http.MethodGet, route
	}
	path = strings.NewReplacer("{tenant}", tenant, "{$}", "", "{", "", "}", "").Replace(path)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	body := "{}"
	if method == http.MethodDelete || strings.Contains(path, ":") { // they take none
		body = ""
	}
	r := httptest.NewRequestWithContext(ctx, method, "http://timers.example"+path+"?confirm="+tenant, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := &answer{httptest.NewRecorder(), cancel}
	s.ServeHTTP(w, r)
	if w.Code == 401 && w.Header().Get("WWW-Authenticate") == "" {
		return 200 // the login page has got no token
	}
	return w.Code
}

// An answer ends its request when it begins: a stream does not end by itself.
type answer struct {
	*httptest.ResponseRecorder
	begins func()
}

func (a *answer) WriteHeader(code int) {
	a.ResponseRecorder.WriteHeader(code)
	a.begins()
}

func (a *answer) Write(text []byte) (int, error) {
	a.begins()
	return a.ResponseRecorder.Write(text)
}

// TestNoRedirectLosesThePrefix: a mux would redirect paths that it cleans.
func TestNoRedirectLosesThePrefix(t *testing.T) {
	t.Parallel()
	s := admin.New(quiet, admin.Options{Prefix: "/timers", Profiles: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), Metrics: http.NotFoundHandler(), Monitor: watched(t), Timers: seeded(t)})
	for path, want := range map[string]int{
		"/timers": 307, "/timers/debug/pprof": 307, "/timers/debug/pprof/": 200, "/timers/debug/pprof/../../tenants": 404, "/timers/debug/../tenants": 404, "/timers/debug/../v1/stats": 404,
		"/timers//x": 404, "/timers//": 404, "/timers//tenants": 404, "/timers/./tenants": 404, "/timers/tenants/.": 404, "/timers/v1/../tenants": 404, "/timers/v1//stats": 404,
		"/timers/": 200, "/timers/docs": 307, "/timers/docs/": 200, "/timers/tenants": 200, "/timers/tenants/": 404, "/timers/v1/stats": 200, "/timers/debug/%2e%2e/tenants": 404,
	} {
		w := request(s, "GET", path, "")
		if to := w.Header().Get("Location"); w.Code != want || to != "" && to != path+"/" {
			t.Errorf("%s: %d to %q, want %d", path, w.Code, to, want)
		}
	}
}
