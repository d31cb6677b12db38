package service

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/internal/logbuf"
)

// TestTenantTokensAreLoadedAgain changes the file while the service runs.
func TestTenantTokensAreLoadedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "tokens.yaml")
		written := time.Now()
		write := func(text string) {
			t.Helper()
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			written = written.Add(time.Second) // the real clock may show the same for two writes
			if err := os.Chtimes(file, written, written); err != nil {
				t.Fatal(err)
			}
		}
		write("acme: first-secret-token")
		log := new(logbuf.Buffer)
		quiet := slog.New(slog.DiscardHandler)
		server := admin.New(quiet, admin.Options{Addr: ":8080", Token: "full", Monitor: admin.NewMonitor(nil, quiet)})
		tokens := watchTokens(file, server, slog.New(slog.NewTextHandler(log, nil)))
		if _, err := tokens.now(); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- tokens.Run(ctx) }()
		expect := func(what, token, logged string) {
			t.Helper()
			time.Sleep(3 * time.Second)
			synctest.Wait()
			r := httptest.NewRequest(http.MethodGet, "/none", nil)
			r.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			if server.ServeHTTP(w, r); w.Code != http.StatusNotFound {
				t.Errorf("%s: %d", what, w.Code)
			}
			if text := log.Take(); logged == "" && text != "" || !strings.Contains(text, logged) || strings.Count(text, "\n") > 1 || strings.Contains(text, "secret") {
				t.Errorf("%s: the log says %q, want %q", what, text, logged)
			}
		}
		expect("as it was", "first-secret-token", "")
		write("acme: [first-secret-token, second-secret-token]")
		expect("changed", "second-secret-token", "new tenant tokens are in force")
		write("acme: secret")
		expect("a mistake", "second-secret-token", "16 or more")
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		expect("gone", "second-secret-token", "no such file")
		write("acme: third-secret-token")
		expect("back", "third-secret-token", "new tenant tokens are in force")
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
