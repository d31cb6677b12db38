package admin_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/app"
)

// TestBodiesThatWouldBeIgnoredAreRefused: a tenant in a body must not stand for all tenants.
func TestBodiesThatWouldBeIgnoredAreRefused(t *testing.T) {
	t.Parallel()
	s, _ := operated(t, nil)
	header := append(with("full"), "Content-Type", "application/json")
	for _, target := range []string{"POST /v1/firing:pause", "POST /v1/timers:refire?since=1h", "DELETE /v1/tenants/acme/timers/order-4", "POST /v1/parked:discard?all=true", "GET /v1/stats"} {
		method, path, _ := strings.Cut(target, " ")
		if w := request(s, method, path, `{"tenant":"acme"}`, header...); w.Code != 400 || !strings.Contains(w.Body.String(), "parameters in the query") {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	if _, got, _ := send(t, s, "GET", "/v1/firing", "", with("full")...); got["paused"] != false {
		t.Errorf("after what was refused: %v", got)
	}
	for kind, code := range map[string]int{"text/plain": 415, "application/x-www-form-urlencoded": 415, "application/json; charset=utf-8": 202} {
		w := request(s, "PUT", "/v1/tenants/acme/timers/new", `{"in":"1h"}`, append(with("full"), "Content-Type", kind)...)
		if w.Code != code || code == 415 && !strings.Contains(w.Body.String(), "send application/json") {
			t.Errorf("%s: %d %s", kind, w.Code, w.Body)
		}
	}
}

// TestParametersThatWouldBeIgnoredAreRefused: one without a value must not stand for all tenants.
func TestParametersThatWouldBeIgnoredAreRefused(t *testing.T) {
	t.Parallel()
	s, _ := operated(t, nil)
	for target, says := range map[string]string{
		"POST /v1/firing:pause?tenant=":                      "tenant has no value",
		"POST /v1/firing:resume?tenant=":                     "tenant has no value",
		"POST /v1/timers:refire?tenant=&since=1h":            "tenant has no value",
		"POST /v1/dead-letters:discard?tenant=acme&id=":      "id has no value",
		"POST /v1/firing:pause?tenant=acme&tenant=beta":      "tenant is given more than once",
		"GET /v1/tenants/acme/timers?state=Reached&state=":   "state has no value",
		"GET /v1/tenants/acme/timers?limit=1&limit=2":        "limit is given more than once",
		"DELETE /v1/tenants/acme?confirm=acme&confirm=other": "confirm is given more than once",
	} {
		method, path, _ := strings.Cut(target, " ")
		if code, text := do(s, method, path, with("full")...); code != 422 || !strings.Contains(text, says) {
			t.Errorf("%s: %d %s, want %q", target, code, text, says)
		}
	}
	if _, got, _ := send(t, s, "GET", "/v1/firing", "", with("full")...); got["paused"] != false || got["tenants"] != nil {
		t.Errorf("after what was refused: %v", got)
	}
}

// TestUnknownPathsAreAnsweredForTheirCaller: a program gets a problem, a browser a page.
func TestUnknownPathsAreAnsweredForTheirCaller(t *testing.T) {
	t.Parallel()
	s, _ := operated(t, nil)
	for accept, want := range map[string]string{"": "application/problem+json", "application/json": "application/problem+json", "text/html,*/*": "text/html; charset=utf-8"} {
		for _, path := range []string{"/v2/x", "/none", "/timer/x"} {
			w := request(s, "GET", path, "", append(with("full"), "Accept", accept)...)
			if w.Code != 404 || w.Header().Get("Content-Type") != want || !strings.Contains(w.Body.String(), admin.NoPath) {
				t.Errorf("%s for %q: %d %v %s", path, accept, w.Code, w.Header(), w.Body)
			}
		}
	}
}

// TestFiringSaysWhatIs: parts that do not work, and a tenant that nobody knows.
func TestFiringSaysWhatIs(t *testing.T) {
	t.Parallel()
	s, _ := operated(t, func(opt *admin.Options) {
		opt.Monitor = admin.NewMonitor(func(context.Context) []app.Check {
			return []app.Check{{Part: "store"}, {Part: "broker", Reason: "connection refused", Red: true}}
		}, quiet)
		opt.Monitor.Refresh(t.Context())
	})
	for _, target := range []string{"GET /v1/firing", "POST /v1/firing:resume", "GET /v1/stats"} {
		method, path, _ := strings.Cut(target, " ")
		if _, text := do(s, method, path, with("full")...); !strings.Contains(text, `"notReady":["broker: connection refused"]`) {
			t.Errorf("%s: %s", target, text)
		}
	}
	for tenant, hint := range map[string]bool{"acme": false, "nosuch": true} {
		_, got, _ := send(t, s, "POST", "/v1/firing:pause?tenant="+tenant, "", with("full")...)
		if has := strings.Contains(fmt.Sprint(got["hint"]), "has no timers"); has != hint {
			t.Errorf("the pause of %s: %v", tenant, got)
		}
	}
}
