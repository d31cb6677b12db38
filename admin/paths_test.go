package admin_test

import (
	"net/http"
	"testing"

	"github.com/event-service-agent/timer-service/admin"
)

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
