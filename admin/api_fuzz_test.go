package admin_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestNoRequestIsTooMuch sends any request: the answer is never 5xx, and a problem says
// which status it has. The paths are those of the API with something else in them.
func TestNoRequestIsTooMuch(t *testing.T) {
	t.Parallel()
	s := serving(t, seeded(t))
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
	paths := []string{"", "tenants", "tenants/_/timers", "tenants/_/timers/_", "tenants/_/timers/_/_", "timers", "stats", "_"}
	names := []string{"limit", "after", "state", "dueFrom", "dueBefore", "dueWithin", "correlationId", "none"}
	rapid.Check(t, func(t *rapid.T) {
		segments := strings.Split(rapid.SampledFrom(paths).Draw(t, "path"), "/")
		for i, segment := range segments {
			if segment == "_" {
				segments[i] = url.PathEscape(text.Draw(t, "segment"))
			}
		}
		query := make(url.Values)
		for range rapid.IntRange(0, 3).Draw(t, "parameters") {
			query.Add(rapid.SampledFrom(names).Draw(t, "name"), text.Draw(t, "value"))
		}
		target := "/v1/" + strings.Join(segments, "/") + "?" + query.Encode()
		if rapid.Bool().Draw(t, "rest") {
			target += "&" + strings.Map(func(r rune) rune {
				if r <= ' ' || r > '~' {
					return '%'
				}
				return r
			}, text.Draw(t, "query"))
		}
		method := rapid.SampledFrom([]string{"GET", "HEAD", "PUT", "DELETE", "POST", "OPTIONS"}).Draw(t, "method")
		r, err := http.NewRequestWithContext(t.Context(), method, "http://localhost"+target, strings.NewReader(body.Draw(t, "body")))
		if err != nil {
			t.Skip("no request can be made of it") // of an escape that is none
		}
		r.Header.Set("If-None-Match", text.Draw(t, "if none match"))
		r.Header.Set("Content-Type", rapid.SampledFrom([]string{"", "application/json", "text/plain", ";"}).Draw(t, "content type"))
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code >= 500 || w.Code < 200 || w.Code >= 400 && w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s: %d %v %s", method, target, w.Code, w.Header(), w.Body)
		}
	})
}
