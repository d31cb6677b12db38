package main

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/internal/testcert"
)

// TestHTTPOverTLS serves HTTPS. Verbs of this machine ask it with the certificate of the
// configuration, others with an authority that the system trusts. Another program on the
// address is asked nothing.
func TestHTTPOverTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, _ := testcert.New(t)
	testcert.Write(t, dir, cert)
	const token = "0123456789abcdef"
	environ := []string{
		"TIMER_HTTP_TLS_CERT=" + filepath.Join(dir, "cert.pem"), "TIMER_HTTP_TLS_KEY=" + filepath.Join(dir, "key.pem"),
		"TIMER_HTTP_TOKEN=" + token, "TIMER_HTTP_SOCKET=/nowhere/timers.sock",
	}
	server, local := answering(t, environ...)
	if !strings.HasPrefix(server, "https://127.0.0.1:") {
		t.Fatalf("HTTP is on %s", server)
	}
	address := strings.TrimPrefix(server, "https://")
	if answer, err := http.Get("http://" + address + "/livez"); err == nil {
		if answer.Body.Close(); answer.StatusCode != 400 {
			t.Errorf("without TLS: %d", answer.StatusCode)
		}
	}
	local = append(local, append(environ, "TIMER_HTTP_ADDR="+address)...)
	do(t, local, "health").wants(t, exitOK).prints(t, "[+] store")
	do(t, local, "doctor").prints(t, "a timer service answers on "+address)
	do(t, []string{"TIMER_HTTP_TOKEN=" + token}, "stats", "--server", server).wants(t, exitFailure).says(t, "certificate")
	p := startIn(t, []string{"TIMER_HTTP_TOKEN=" + token, "SSL_CERT_FILE=" + filepath.Join(dir, "cert.pem")}, "main", "stats", "--server", server)
	p.ends(t).wants(t, exitOK) // with the authority

	other := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("another program was asked for %s", r.URL) }))
	other.Config.ErrorLog = log.New(io.Discard, "", 0)
	other.StartTLS()
	t.Cleanup(other.Close)
	local[len(local)-1] = "TIMER_HTTP_ADDR=" + strings.TrimPrefix(other.URL, "https://")
	do(t, local, "health").wants(t, exitFailure).says(t, "not the one of http_tls_cert")
	do(t, append(local, "TIMER_DB_URL=postgres://localhost:1/none", "TIMER_HTTP_SOCKET="), "pause").wants(t, exitFailure).says(t, "not the one of http_tls_cert")

	must(t, os.Remove(filepath.Join(dir, "key.pem")))
	do(t, append(environ, "TIMER_DB_PATH="+filepath.Join(dir, "timers.db"), "TIMER_NATS_PORT=0"), "serve").wants(t, exitFailure).says(t, "http_tls_cert and http_tls_key")
}
