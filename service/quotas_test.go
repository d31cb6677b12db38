package service

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/internal/logbuf"
	"github.com/event-service-agent/timer-service/internal/testcert"
)

// TestQuotasAreLoadedAgain changes the file while the service runs: well, badly,
// and away.
func TestQuotasAreLoadedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "quotas.yaml")
		written := time.Now()
		write := func(text string) {
			t.Helper()
			must(t, os.WriteFile(file, []byte(text), 0o600))
			written = written.Add(time.Second) // the real clock may show the same for two writes
			must(t, os.Chtimes(file, written, written))
		}
		write("default: {horizon: 1d}")
		var log logbuf.Buffer
		counters := new(app.Counters)
		q, err := loadQuotas(config.Config{QuotasFile: file}, counters, slog.New(slog.NewTextHandler(&log, nil)))
		must(t, err)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			if err := q.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		expect := func(what string, horizon time.Duration, logged string) {
			t.Helper()
			time.Sleep(5 * time.Second)
			synctest.Wait()
			if got := q.limiter.HorizonOr("acme", 0); got != horizon {
				t.Errorf("%s: horizon %v, want %v", what, got, horizon)
			}
			text := log.Take()
			if lines := strings.Count(text, "\n"); logged == "" && lines != 0 || logged != "" && (lines != 1 || !strings.Contains(text, logged)) {
				t.Errorf("%s: the log says %q, want one line with %q", what, text, logged)
			}
		}
		expect("as it was", 24*time.Hour, "")
		write("default: {horizon: 2d}")
		expect("changed", 48*time.Hour, "new quotas are in force")
		write("default: {horizn: 3d}")
		expect("a mistake", 48*time.Hour, "horizn")
		must(t, os.Remove(file))
		expect("gone", 48*time.Hour, "no such file")
		write("default: {horizon: 4d}")
		expect("back", 96*time.Hour, "new quotas are in force")
		write("")
		expect("empty", 96*time.Hour, "is empty")
		if used, refused := counters.Quotas(); used != 2 || refused != 3 {
			t.Errorf("%d changes counted and %d refused, want 2 and 3", used, refused)
		}
		stop()
		running.Wait()
	})
}

// TestQuotasAreNotLoadedHalfWritten loads while a file is being written.
func TestQuotasAreNotLoadedHalfWritten(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "quotas.yaml")
	write := func(text string) {
		t.Helper()
		must(t, os.WriteFile(file, []byte(text), 0o600))
	}
	const half, rest = "default: {horizon: 2d}\n", "tenants:\n  acme: {horizon: 1d}\n"
	write("default: {horizon: 1d}")
	q, err := loadQuotas(config.Config{QuotasFile: file}, new(app.Counters), slog.New(slog.DiscardHandler))
	must(t, err)
	for i, step := range []struct {
		text string // nothing is written if it is empty
		want time.Duration
	}{{half, 24 * time.Hour}, {half + rest, 24 * time.Hour}, {"", 24 * time.Hour}, {half, 24 * time.Hour}, {"", 48 * time.Hour}} {
		if step.text != "" {
			write(step.text)
		}
		q.reload(t.Context())
		if got := q.limiter.HorizonOr("acme", 0); got != step.want {
			t.Errorf("step %d: horizon %v, want %v", i, got, step.want)
		}
	}
}

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
