package service

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/event-service-agent/timer-service/admin"
)

// TestTenantTokensAreLoadedAgain changes the file: from then on the server takes the new
// token, and not the one before.
func TestTenantTokensAreLoadedAgain(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	quiet := slog.New(slog.DiscardHandler)
	server := admin.New(quiet, admin.Options{Addr: ":8080", Token: "full", Monitor: admin.NewMonitor(nil, quiet)})
	tokens := watchTokens(file, server, quiet)
	code := func(token string) int {
		r := httptest.NewRequest(http.MethodGet, "/none", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		return w.Code
	}
	for _, token := range []string{"first-secret-token", "second-secret-token"} {
		if err := os.WriteFile(file, []byte("acme: "+token), 0o600); err != nil {
			t.Fatal(err)
		}
		if before := code(token); before != http.StatusUnauthorized {
			t.Errorf("%s: %d before it is loaded", token, before)
		}
		for range 2 { // the second look is sure that the file is whole
			tokens.reload(t.Context())
		}
		if after := code(token); after != http.StatusNotFound {
			t.Errorf("%s: %d after it was loaded", token, after)
		}
	}
	if old := code("first-secret-token"); old != http.StatusUnauthorized {
		t.Errorf("the old token: %d", old)
	}
}
