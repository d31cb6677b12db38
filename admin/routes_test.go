package admin_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/admin"
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
	ask := func(route, tenant, token string) int {
		method, path, found := strings.Cut(route, " ")
		if !found {
			method, path = http.MethodGet, route
		}
		path = strings.NewReplacer("{tenant}", tenant, "{$}", "", "{", "", "}", "").Replace(path)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, method, "http://timers.example"+path+"?confirm="+tenant, strings.NewReader("{}"))
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
		case "all":
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
