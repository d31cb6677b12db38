package service

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/admin"
)

// TestTenantTokensAreLoadedAgain changes the content of the file, which keeps its size and time, as
// with cp -p, in images and in Nix: from then on the server takes the new token, and not the
// one before.
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
	for _, token := range []string{"secret-token-number-1", "secret-token-number-2"} {
		written := time.Unix(1, 0)
		if err := errors.Join(os.WriteFile(file, []byte("acme: "+token), 0o600), os.Chtimes(file, written, written)); err != nil {
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
	if old := code("secret-token-number-1"); old != http.StatusUnauthorized {
		t.Errorf("the old token: %d", old)
	}
}
