package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestServeAnswersAllOfTheAPI: what is set reaches the server, and what it changes
// reaches the service.
func TestServeAnswersAllOfTheAPI(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	p := startIn(t, []string{
		"TIMER_HTTP_ADDR=127.0.0.1:0", "TIMER_HTTP_TOKEN=full", "TIMER_HTTP_PPROF=true", "TIMER_NATS_PORT=0",
		"TIMER_HTTP_TENANT_TOKENS_FILE=" + write("tokens.yaml", "acme: token-of-acme-0001"),
		"TIMER_QUOTAS_FILE=" + write("quotas.yaml", "default: {live_timers: 7}"),
	}, "main", "serve")
	server := ""
	for p.lines.Scan() {
		if text, found := strings.CutPrefix(p.lines.Text(), "http "); found {
			server, _, _ = strings.Cut(strings.TrimSpace(text), ",")
		}
		if strings.HasPrefix(p.lines.Text(), "ready") {
			break
		}
	}
	for _, test := range []struct {
		token, method, path, body string
		code                      int
		has                       string
	}{
		{"full", "GET", "/v1/quotas", "", 200, `"liveTimers":7`},
		{"full", "GET", "/v1/nodes", "", 200, `"self":true`},
		{"full", "POST", "/v1/firing:pause", "", 200, `"paused":true`},
		{"full", "PUT", "/v1/tenants/acme/timers/order-1?wait=20s", `{"in":"0"}`, 200, "scheduled"},
		{"token-of-acme-0001", "GET", "/v1/tenants/acme/timers/order-1", "", 200, `"Scheduled"`},
		{"token-of-acme-0001", "GET", "/v1/tenants/globex/timers/order-1", "", 404, ""},
		{"token-of-acme-0001", "GET", "/debug/pprof/", "", 403, ""},
		{"full", "GET", "/debug/pprof/", "", 200, "goroutine"},
		{"full", "POST", "/v1/firing:resume", "", 200, `"paused":false`},
		{"full", "DELETE", "/v1/tenants/acme?confirm=acme", "", 200, `"complete":true`},
		{"full", "GET", "/v1/audit", "", 200, "resume firing"},
		{"full", "GET", "/v1/dead-letters", "", 200, "[]"},
		{"wrong", "GET", "/v1/parked", "", 401, ""},
	} {
		r, err := http.NewRequestWithContext(t.Context(), test.method, server+test.path, strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+test.token)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode != test.code || !strings.Contains(string(text), test.has) {
			t.Errorf("%s %s: %d %s, want %d with %s", test.method, test.path, answer.StatusCode, text, test.code, test.has)
		}
	}
}
