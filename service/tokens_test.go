package service

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/internal/testcert"
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
		must(t, errors.Join(os.WriteFile(file, []byte("acme: "+token), 0o600), os.Chtimes(file, written, written)))
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

// TestCertificateIsLoadedAgain when its files change. While they do not fit together, the one
// before is shown.
func TestCertificateIsLoadedAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	files, settings := watchCertificate(cert, key, slog.New(slog.DiscardHandler))
	if _, err := files.first(); err == nil || !strings.Contains(err.Error(), "http_tls_cert") {
		t.Errorf("without files: %v", err)
	}
	var last []byte
	for range 2 {
		pair, _ := testcert.New(t)
		testcert.Write(t, dir, pair)
		for range 2 { // the second look is sure that the files are whole
			files.reload(t.Context())
		}
		shown, err := settings.GetCertificate(nil)
		if err != nil || !bytes.Equal(shown.Certificate[0], pair.Certificate[0]) {
			t.Errorf("the new one is not shown: %v", err)
		}
		last = pair.Certificate[0]
	}
	must(t, os.WriteFile(key, []byte("half of a key"), 0o600))
	for range 2 {
		files.reload(t.Context())
	}
	if shown, err := settings.GetCertificate(nil); err != nil || !bytes.Equal(shown.Certificate[0], last) {
		t.Errorf("after a mistake another one is shown: %v", err)
	}
}
