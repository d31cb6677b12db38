package admin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/event-service-agent/timer-service/admin"
)

// parameter is one in a path.
var parameter = regexp.MustCompile(`\{[a-z]+\}`)

// TestNoRequestIsTooMuch sends any request, as one who may see all or one tenant only:
// the answer is never 5xx and comes soon, and a problem says which status it has. The
// paths are paths of the API with other values in them.
func TestNoRequestIsTooMuch(t *testing.T) {
	t.Parallel()
	s, _ := operated(t, func(opt *admin.Options) { opt.Events = admin.NewEvents() })
	var described struct{ Paths map[string]map[string]any }
	if _, text := get(s, "/openapi.json", with("full")...); json.Unmarshal([]byte(text), &described) != nil || len(described.Paths) < 15 {
		t.Fatal(text)
	}
	fields := []string{"in", "dueAt", "data", "correlationId", "timestampMs", "none"}
	text := rapid.OneOf(
		rapid.SampledFrom([]string{"", ".", "..", "acme", "order-1", "a/b", "%", "%2F", "\x00", "*", "{tenant}", "0", "-1", "1h", "999999999d", "Scheduled", "' OR 1=1", "é", "\xff", strings.Repeat("x", 200)}),
		rapid.String(),
	)
	body := rapid.OneOf(text, rapid.Custom(func(t *rapid.T) string {
		value, err := json.Marshal(text.Draw(t, "value"))
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf(`{%q:"1h",%q:%s}`, rapid.SampledFrom(fields).Draw(t, "field"), rapid.SampledFrom(fields).Draw(t, "another"), value)
	}))
	paths := []string{"", "tenants/_/timers/_/_", "_", "firing:_", "parked/_:_"}
	var routes []string // with their methods
	for path, methods := range described.Paths {
		paths = append(paths, parameter.ReplaceAllString(strings.TrimPrefix(path, "/v1/"), "_"))
		for method := range methods {
			routes = append(routes, strings.ToUpper(method)+" "+paths[len(paths)-1])
		}
	}
	slices.Sort(paths)
	slices.Sort(routes)
	common := rapid.SampledFrom([]string{"acme", "globex", "order-1", "order-4", "1", "2", "_"})
	names := []string{"limit", "after", "state", "dueFrom", "dueBefore", "dueWithin", "correlationId", "tenant", "reason", "since", "intervals", "width", "only", "confirm", "wait", "none"}
	rapid.Check(t, func(t *rapid.T) {
		method, path, _ := strings.Cut(rapid.SampledFrom(routes).Draw(t, "route"), " ")
		if rapid.IntRange(0, 3).Draw(t, "any") == 0 {
			method, path = rapid.SampledFrom([]string{"GET", "HEAD", "PUT", "DELETE", "POST", "OPTIONS"}).Draw(t, "method"), rapid.SampledFrom(paths).Draw(t, "path")
		}
		segments := strings.Split(path, "/")
		for i, segment := range segments {
			for strings.Contains(segment, "_") {
				segment = strings.Replace(segment, "_", strings.ReplaceAll(url.PathEscape(rapid.OneOf(common, text).Draw(t, "segment")), "_", "%5F"), 1)
			}
			segments[i] = segment
		}
		query := make(url.Values)
		for range max(0, rapid.IntRange(-3, 3).Draw(t, "parameters")) {
			query.Add(rapid.SampledFrom(names).Draw(t, "name"), rapid.OneOf(common, text).Draw(t, "value"))
		}
		target := "/v1/" + strings.Join(segments, "/") + "?" + query.Encode()
		if rapid.IntRange(0, 3).Draw(t, "rest") == 0 {
			target += "&" + strings.Map(func(r rune) rune {
				if r <= ' ' || r > '~' {
					return '%'
				}
				return r
			}, text.Draw(t, "query"))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if strings.HasPrefix(target, "/v1/events") { // which ends with the client
			ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
		}
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, method, "http://localhost"+target, strings.NewReader(body.Draw(t, "body")))
		if err != nil {
			t.Skip("no request can be made of it") // of an escape that is none
		}
		r.Header.Set("If-None-Match", rapid.OneOf(rapid.Just(""), text).Draw(t, "if none match"))
		r.Header.Set("Content-Type", rapid.SampledFrom([]string{"application/json", "", "text/plain", ";"}).Draw(t, "content type"))
		r.Header.Set("Authorization", "Bearer "+rapid.SampledFrom([]string{"full", "acme"}).Draw(t, "token"))
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if !strings.HasPrefix(target, "/v1/events") && ctx.Err() != nil {
			t.Errorf("%s %s: hangs", method, target)
		}
		if w.Code >= 500 || w.Code/100 == 3 || w.Code < 200 || w.Code >= 400 && w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s: %d %v %s", method, target, w.Code, w.Header(), w.Body)
		}
	})
}
